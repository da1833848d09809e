// The names of rows, at the left of the lanes.
import {AXIS, GAP} from './rows.js';

/// `look` returns a colour by its name in the style sheet.
export class Heads {
  constructor(lanes, context, look, family, width) {
    Object.assign(this, {lanes, context, look, width});
    this.fonts = {plain: `12px ${family}`, head: `600 12px ${family}`};
    this.inset = lanes.gutter < 160 ? 8 : 16;
    this.colors = {line: look('--line'), ink: look('--ink'), faint: look('--faint'),
      accent: look('--accent'), worse: look('--worse')};
  }

  draw(place, top) {
    const {context, lanes, inset, colors} = this, {head, label, isOpen, tall, group} = place,
      room = lanes.gutter - inset - 8;
    const middle = top + Math.min(tall, lanes.rowHeight(place)) / 2;
    if (head !== '') {
      context.fillStyle = colors.line;
      context.fillRect(0, top - GAP, this.width, 1);
    }
    if (isOpen === undefined) {
      context.font = head === '' ? this.fonts.plain : this.fonts.head;
      context.fillStyle = head === '' ? colors.faint : colors.ink;
      const isNested = head === '' && group !== '';
      // The hint at the pointer has the whole name.
      const short = lanes.gutter < 160 ? label.replace(/^tensor /, '') : label;
      const text = head === '' ? short : `${head}${short && ` · ${short}`}`;
      context.fillText(lanes.fitted(text, place.isQuiet ? this.width : room - (isNested ? 14 : 0), true),
        inset + (isNested ? 14 : 0), middle);
      return;
    }
    context.fillStyle = colors.ink;
    context.font = this.fonts.plain;
    context.fillText(isOpen ? '▾' : '▸', inset, middle);
    context.font = this.fonts.head;
    const text = lanes.fitted(head, room - 14, true);
    context.fillText(text, inset + 14, middle);
    const right = inset + 14 + context.measureText(text).width;
    const late = lanes.late.get(group);
    if (late) this.drawLate(late, right + 8, middle);
    if (lanes.cursor === group) {
      context.strokeStyle = colors.accent;
      context.lineWidth = 2;
      context.strokeRect(inset - 5, top + 1, lanes.gutter - inset, tall - 2);
    }
  }

  drawLate(words, left, middle) {
    const {context, lanes} = this, room = lanes.gutter - left - 4;
    context.fillStyle = this.colors.worse;
    const text = [words, 'late'].find(each => context.measureText(each).width <= room);
    if (text) context.fillText(text, left, middle);
  }

  /// Draws the name of the group that the first visible rows belong to, if its head is scrolled away.
  drawGroup() {
    const {context, lanes} = this, first = lanes.rows.find(each => each.y - lanes.scroll + each.tall > AXIS);
    if (!first?.group || first.head !== '' && first.y - lanes.scroll >= AXIS - 8) return;
    context.fillStyle = this.colors.ink;
    context.font = this.fonts.head;
    context.fillText(lanes.fitted(first.group, lanes.gutter - this.inset - 8), this.inset, 10);
    context.font = this.fonts.plain;
  }
}
