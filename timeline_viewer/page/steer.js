// The pointer, the wheel and the keys on the canvas of lanes.
import {press} from './keys.js';

/// Handles the wheel on a canvas that shares the time axis of the lanes.
export function steerTime(lanes, canvas) {
  canvas.addEventListener('wheel', event => {
    event.preventDefault();
    if (event.shiftKey) lanes.scrollBy(event.deltaY || event.deltaX);
    else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) lanes.pan(event.deltaX / lanes.scale);
    else lanes.zoom(1.002 ** event.deltaY, Math.max(lanes.gutter, event.offsetX));
  }, {passive: false});
}

export function steer(lanes) {
  const {canvas} = lanes;
  canvas.addEventListener('dblclick', () => lanes.fitSelected());
  steerTime(lanes, canvas);
  const fingers = new Map();
  let drag = null;
  canvas.addEventListener('pointerdown', event => {
    fingers.set(event.pointerId, event.offsetX);
    drag = {x: event.offsetX, y: event.offsetY, moved: 0, from: event.shiftKey ? event.offsetX : null};
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener('pointermove', event => {
    if (!drag) {
      canvas.style.cursor = lanes.trace && lanes.rowAt(event.offsetY)?.isOpen !== undefined ? 'pointer' : '';
      return;
    }
    if (drag.from !== null) return lanes.measure(drag.from, event.offsetX);
    if (fingers.size === 2) return pinch(event);
    fingers.set(event.pointerId, event.offsetX);
    if (drag.lifted) drag = {x: event.offsetX, y: event.offsetY, moved: Infinity, from: null};
    const dx = event.offsetX - drag.x, dy = event.offsetY - drag.y;
    lanes.pan(-dx / lanes.scale);
    lanes.scrollBy(-dy);
    drag = {x: event.offsetX, y: event.offsetY, moved: drag.moved + Math.abs(dx) + Math.abs(dy), from: null};
  });
  /// Zooms by two fingers, so that the middle between them stays where it is.
  function pinch(event) {
    const apart = () => Math.max(8, Math.abs([...fingers.values()].reduce((a, b) => a - b))),
      before = apart();
    fingers.set(event.pointerId, event.offsetX);
    const [a, b] = fingers.values();
    lanes.zoom(before / apart(), (a + b) / 2);
    drag = {x: event.offsetX, y: event.offsetY, moved: Infinity, from: null};
  }
  canvas.addEventListener('pointerup', event => {
    fingers.delete(event.pointerId);
    if (fingers.size) {  // the drag continues from the other finger
      drag.lifted = true;
      return;
    }
    if (drag?.from != null && lanes.measured) lanes.on.measure(lanes.measured);
    else if (drag && drag.moved < 4) lanes.click(event.offsetX, event.offsetY);
    drag = null;
  });
  canvas.addEventListener('pointercancel', () => {
    fingers.clear();
    drag = null;
  });
  canvas.addEventListener('keydown', event => press(lanes, event));
  // The keys work even before anything was clicked.
  document.addEventListener('keydown', event => {
    if (event.target === document.body && lanes.trace) press(lanes, event);
  });
}
