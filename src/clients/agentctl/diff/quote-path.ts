// Quotes paths as git does: one with a control character, a quote, a backslash or a byte outside
// ASCII stands in double quotes, with these escaped.

const NAMED: Readonly<Record<number, string>> = {
  7: '\\a',
  8: '\\b',
  9: '\\t',
  10: '\\n',
  11: '\\v',
  12: '\\f',
  13: '\\r',
  34: '\\"',
  92: '\\\\',
};

const escapeByte = (byte: number): string => {
  const named = NAMED[byte];
  if (named !== undefined) return named;
  if (byte >= 32 && byte < 127) return String.fromCharCode(byte);
  return `\\${byte.toString(8).padStart(3, '0')}`;
};

/** `lead` is `a/` or `b/`, which stands inside the quotes. */
export function quotePath(path: string, lead = ''): string {
  const text = [...Buffer.from(path)].map(escapeByte).join('');
  return text === path ? lead + path : `"${lead}${text}"`;
}
