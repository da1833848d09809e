// In the search a dash before a word means "without". Here it belongs to a flag: --top is read as top.
"use strict";

document.addEventListener("DOMContentLoaded", () => {
  const field = document.querySelector("input.md-search__input");
  const typed = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value");
  Object.defineProperty(field, "value", {
    get() {
      return typed.get.call(this).replace(/(^|\s)-+(?=\w)/g, "$1");
    },
    set(text) {
      typed.set.call(this, text);
    },
  });
});
