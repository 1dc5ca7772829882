// Numbers as words. A log may hold "nan" in place of a number.

import { visible } from "./elements.js";

// "–" where there is none.
export function formatted(value, isShare) {
  if (value === null || value === undefined) return "–";
  if (isShare) return `${(100 * value).toFixed(1)} %`;
  if (Math.abs(value) < 10) return decimal(value);
  return String(Number(value.toFixed(1))).replace("-", "−");
}

export function percent(value) {
  return formatted(Number.isFinite(value) ? value : null, true);
}

// Three digits.
export function decimal(value) {
  if (!Number.isFinite(value)) return visible(value);
  return String(Number(value.toPrecision(3))).replace("-", "−");
}

export function signed(value) {
  return (value > 0 ? "+" : "") + decimal(value);
}

export function counted(number, noun) {
  return `${number} ${noun}${number === 1 ? "" : "s"}`;
}
