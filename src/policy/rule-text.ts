// Splits the text of a .cedar file into rules with their line numbers. Cedar's own splitter keeps
// neither order nor positions. Pure.

export type RuleTextPart = { text: string; line: number };

/**
 * A rule ends with a semicolon outside strings and comments. Text after the last one is returned
 * too, so that Cedar can report the missing part.
 */
export function splitRules(text: string): RuleTextPart[] {
  const pieces: RuleTextPart[] = [];
  let start: number | undefined;
  for (let i = 0; i < text.length; i++) {
    const c = text[i]!;
    if (c === '/' && text[i + 1] === '/') {
      i = endOfLine(text, i);
      continue;
    }
    if (/\s/.test(c)) continue;
    start ??= i;
    if (c === '"') i = endOfString(text, i);
    else if (c === ';') {
      pieces.push({ text: text.slice(start, i + 1), line: lineAt(text, start) });
      start = undefined;
    }
  }
  if (start !== undefined)
    pieces.push({ text: text.slice(start).trimEnd(), line: lineAt(text, start) });
  return pieces;
}

function endOfLine(text: string, from: number): number {
  const at = text.indexOf('\n', from);
  return at < 0 ? text.length : at;
}

function endOfString(text: string, from: number): number {
  for (let i = from + 1; i < text.length; i++) {
    if (text[i] === '\\') i++;
    else if (text[i] === '"') return i;
  }
  return text.length;
}

function lineAt(text: string, index: number): number {
  let line = 1;
  for (let at = text.indexOf('\n'); at >= 0 && at < index; at = text.indexOf('\n', at + 1)) line++;
  return line;
}

/** Cedar's offsets are UTF-8 bytes. */
export function lineAtByte({ text, line }: RuleTextPart, offset: number): number {
  const before = Buffer.from(text).subarray(0, offset);
  return line + before.filter((byte) => byte === 10).length;
}
