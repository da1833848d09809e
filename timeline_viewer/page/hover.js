// Shows the words for what is below the pointer, in a small box beside it.
export function followPointer(canvas, box, wordsAt) {
  const hide = () => { box.hidden = true; };
  canvas.addEventListener('pointermove', event => {
    const words = event.buttons ? '' : wordsAt(event.offsetX, event.offsetY);
    box.hidden = !words;
    if (!words) return;
    box.textContent = words;
    const {innerWidth, innerHeight} = window;
    box.style.left = `${Math.max(0, Math.min(event.clientX + 12, innerWidth - box.offsetWidth - 4))}px`;
    box.style.top = `${Math.min(event.clientY + 16, innerHeight - box.offsetHeight - 4)}px`;
  });
  canvas.addEventListener('pointerleave', hide);
  canvas.addEventListener('pointerdown', hide);
  canvas.addEventListener('wheel', hide, {passive: true});
}
