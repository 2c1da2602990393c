// SPDX-License-Identifier: GPL-2.0-only
// One slide at a time, by keyboard or by the links of the first. The address holds the number.
"use strict";
(() => {
  const slides = [...document.querySelectorAll("section")];
  const place = document.querySelector("#place");
  const number = () => Math.min(Math.max(parseInt(location.hash.slice(1), 10) || 1, 1), slides.length);
  // A slide with more than fits gets smaller letters, down to two thirds; what still does not fit is scrolled.
  const fit = (slide) => {
    slide.style.fontSize = "";
    const whole = parseFloat(getComputedStyle(slide).fontSize);
    for (let size = whole; slide.scrollHeight > innerHeight && size > Math.max(whole * 0.66, 13); size -= 1) {
      slide.style.fontSize = `${size}px`;
    }
  };
  const show = () => {
    slides.forEach((slide, index) => slide.classList.toggle("shown", index + 1 === number()));
    place.textContent = `${number()} / ${slides.length}`;
    scrollTo(0, 0);
    fit(slides[number() - 1]);
  };
  const steps = { ArrowRight: 1, PageDown: 1, " ": 1, ArrowLeft: -1, PageUp: -1, Home: -slides.length, End: slides.length };
  addEventListener("keydown", (event) => {
    const step = steps[event.key];
    if (step === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    location.hash = Math.min(Math.max(number() + step, 1), slides.length);
  });
  addEventListener("hashchange", show);
  addEventListener("resize", show);
  show();
})();
