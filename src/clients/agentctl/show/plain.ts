// Text of others made safe to show: no control character reaches the terminal, so that what an
// agent or a web page wrote can neither move the cursor nor pass for our own output.

/** C0 without tab and newline, DEL, C1, and the marks that turn the direction of writing. */
const CONTROLS =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/** Keeps lines and tabs; other control and direction marks show as a replacement character. */
export function replaceControls(text: string): string {
  return text.replaceAll('\r\n', '\n').replace(CONTROLS, '\ufffd');
}

/** On one line: every run of white space is one space. */
export function toOneLine(text: string): string {
  return replaceControls(text).replace(/\s+/g, ' ').trim();
}
