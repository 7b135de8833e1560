// Makes characters visible that a person would not see.

/**
 * Control, format and direction characters, private and unassigned ones, lone surrogates, invisible
 * ones, and every space but U+0020. Newlines and tabs are handled separately.
 */
const HIDDEN = /[\p{C}\p{Zl}\p{Zp}]|\p{Default_Ignorable_Code_Point}|(?! )\p{Zs}|\u2800/gu;

const escapeChar = (char: string): string =>
  `\\u{${char.codePointAt(0)!.toString(16).padStart(4, '0')}}`;

/** Escapes newlines too. */
export const escapeHidden = (text: string): string => text.replace(HIDDEN, escapeChar);

export const escapeLines = (text: string): string[] =>
  text.split('\n').map((line) => escapeHidden(line.replaceAll('\t', '    ')));
