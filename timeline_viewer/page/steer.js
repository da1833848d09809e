// The pointer, the wheel and the keys, on the canvas of lanes.

export function steer(lanes) {
  const {canvas} = lanes;
  canvas.addEventListener('dblclick', () => lanes.fitSelected());
  canvas.addEventListener('wheel', event => {
    event.preventDefault();
    if (event.shiftKey) lanes.scrollBy(event.deltaY || event.deltaX);
    else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) lanes.pan(event.deltaX / lanes.scale);
    else lanes.zoom(1.002 ** event.deltaY, event.offsetX);
  }, {passive: false});
  let drag = null;
  canvas.addEventListener('pointerdown', event => {
    drag = {x: event.offsetX, y: event.offsetY, moved: 0, from: event.shiftKey ? event.offsetX : null};
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener('pointermove', event => {
    if (!drag) return;
    if (drag.from !== null) return lanes.measure(drag.from, event.offsetX);
    const dx = event.offsetX - drag.x, dy = event.offsetY - drag.y;
    lanes.pan(-dx / lanes.scale);
    lanes.scrollBy(-dy);
    drag = {x: event.offsetX, y: event.offsetY, moved: drag.moved + Math.abs(dx) + Math.abs(dy), from: null};
  });
  canvas.addEventListener('pointerup', event => {
    if (drag?.from != null && lanes.measured) {
      lanes.on.measure(lanes.measured);
    } else if (drag && drag.moved < 4) {
      lanes.choose(lanes.at(event.offsetX, event.offsetY));
      lanes.redraw();
      lanes.on.select(lanes.selected);
    }
    drag = null;
  });
  canvas.addEventListener('keydown', event => press(lanes, event));
  // Before anything has been clicked, too.
  document.addEventListener('keydown', event => {
    if (event.target === document.body && lanes.trace) press(lanes, event);
  });
}

function press(lanes, event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const span = lanes.end - lanes.begin;
  const act = {
    w: () => lanes.zoom(0.8), s: () => lanes.zoom(1.25), a: () => lanes.pan(-span / 8), d: () => lanes.pan(span / 8),
    ArrowLeft: () => lanes.pan(-span / 8), ArrowRight: () => lanes.pan(span / 8),
    ArrowUp: () => lanes.scrollBy(-32), ArrowDown: () => lanes.scrollBy(32), 0: () => lanes.showAll(),
    f: () => lanes.fitSelected(), m: () => lanes.measureSelected(),
    Escape: () => { lanes.choose(-1); lanes.measured = null; lanes.redraw(); lanes.on.select(-1); },
  }[event.key.length === 1 ? event.key.toLowerCase() : event.key];
  if (!act) return;
  event.preventDefault();
  act();
}
