// Gathers rectangles by colour, since a change of the colour takes longer than filling a rectangle.
// Rectangles that touch become one.
export class Rectangles {
  constructor() {
    this.plain = new Map();
    this.faint = new Map();
  }

  add(color, isFaint, left, top, width, tall) {
    const colors = isFaint ? this.faint : this.plain;
    let places = colors.get(color);
    if (!places) colors.set(color, places = []);
    const last = places.length - 4;
    if (last >= 0 && width <= 1 && places[last + 1] === top && places[last + 3] === tall &&
      places[last] + places[last + 2] === left) places[last + 2] += width;
    else places.push(left, top, width, tall);
  }

  draw(context) {
    for (const [colors, alpha] of [[this.plain, 1], [this.faint, 0.15]]) {
      context.globalAlpha = alpha;
      for (const [color, places] of colors) {
        context.fillStyle = color;
        for (let i = 0; i < places.length; i += 4)
          context.fillRect(places[i], places[i + 1], places[i + 2], places[i + 3]);
      }
    }
    context.globalAlpha = 1;
  }
}
