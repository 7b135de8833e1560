// Makes untrusted text safe to print: no control character reaches the terminal, so that it can
// neither move the cursor nor pass for output of agentctl.

/** C0 without tab and newline, DEL, C1, and direction controls. */
const CONTROLS =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: this pattern matches them
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/** Keeps newlines and tabs; replaces other controls with U+FFFD. */
export function replaceControls(text: string): string {
  return text.replaceAll('\r\n', '\n').replace(CONTROLS, '\ufffd');
}

/** Collapses all white space to single spaces. */
export function toOneLine(text: string): string {
  return replaceControls(text).replace(/\s+/g, ' ').trim();
}
