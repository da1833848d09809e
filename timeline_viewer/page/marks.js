// The marks over the lanes: the axis, the selection with its arrows, and the measured range.
import {tickTime, time} from './format.js';
import {AXIS, LANE} from './rows.js';

export function drawAxis(lanes, width, ground, faint, line) {
  const {context, trace: {first}} = lanes;
  context.fillStyle = ground;
  context.fillRect(0, 0, width, AXIS - 4);
  const wanted = (lanes.end - lanes.begin) / Math.max(2, Math.min(6, (width - lanes.gutter) / 80)),
    power = 10 ** Math.floor(Math.log10(wanted));
  const tick = power * ([2, 5, 10].find(each => each * power >= wanted) ?? 10);
  const least = first + Math.ceil((lanes.begin - first) / tick) * tick;
  for (let i = 0, us = least; us < lanes.end; us = least + ++i * tick) {
    context.fillStyle = line;
    context.fillRect(lanes.x(us), 0, 1, AXIS - 4);
    context.fillStyle = faint;
    context.fillText(tickTime(us - first, tick), lanes.x(us) + 4, 10);
  }
}

export function drawSelection(lanes, ink, height) {
  const {trace, context, selected, gutter} = lanes, y = lanes.placeOf(selected)?.y;
  if (y === undefined || y < 0 || y > height) return;
  const left = Math.max(gutter, lanes.x(trace.begin[selected])), right = lanes.x(trace.end[selected]);
  if (right < gutter) return;
  context.strokeStyle = ink;
  context.lineWidth = 2;
  context.strokeRect(left, y, Math.max(2, right - left), LANE - 1);
}

/// Draws an arrow from one event to another, unless one of them is not visible.
export function drawArrow(lanes, from, to, ink) {
  const {context, gutter} = lanes, tail = lanes.placeOf(from), head = lanes.placeOf(to);
  if (!tail || !head || head.x < gutter || tail.x < gutter || Math.max(tail.y, head.y) < AXIS) return;
  const isDown = head.y > tail.y, y = isDown ? head.y : head.y + LANE - 1, away = isDown ? -1 : 1;
  context.strokeStyle = context.fillStyle = ink;
  context.lineWidth = 1;
  context.beginPath();
  context.moveTo(tail.x, isDown ? tail.y + LANE - 1 : tail.y);
  context.bezierCurveTo(tail.x - 12, (tail.y + y) / 2, head.x - 12, (tail.y + y) / 2, head.x, y);
  context.stroke();
  context.beginPath();
  context.moveTo(head.x, y);
  context.lineTo(head.x - 4, y + away * 6);
  context.lineTo(head.x + 2, y + away * 6);
  context.fill();
}

export function drawMeasured(lanes, accent, ground, height) {
  const {context, gutter} = lanes, {begin, end} = lanes.measured,
    left = Math.max(gutter, lanes.x(begin)), right = lanes.x(end);
  if (right <= gutter) return;
  context.fillStyle = accent;
  context.globalAlpha = 0.15;
  context.fillRect(left, AXIS - 4, right - left, height);
  context.globalAlpha = 1;
  const words = time(end - begin), wide = context.measureText(words).width + 8;
  context.fillRect(left, 0, Math.max(wide, right - left), AXIS - 4);
  context.fillStyle = ground;
  context.fillText(words, left + 4, 10);
}
