// Turns a pattern of RE2 (Go) into one of JavaScript: flags in the middle of a group, groups with a
// name, and the end of the text are written differently. Pure.

const END_OF_TEXT = '(?![\\s\\S])';

/** Where the class that begins at `start` ends. A bracket that comes first in it is a member. */
function findClassEnd(pattern: string, start: number): number {
  let i = start + 1;
  if (pattern[i] === '^') i++;
  if (pattern[i] === ']') i++;
  for (; i < pattern.length && pattern[i] !== ']'; i++) if (pattern[i] === '\\') i++;
  return i;
}

export function convertRe2(pattern: string): string {
  /** For each open group, how many groups were opened inside it for a flag. */
  const opened = [0];
  let out = '';
  const closeFlags = (): void => {
    out += ')'.repeat(opened.pop() ?? 0);
  };
  for (let i = 0; i < pattern.length; i++) {
    const rest = pattern.slice(i);
    const c = rest[0]!;
    if (c === '\\') {
      out += rest.startsWith('\\z') ? END_OF_TEXT : rest.slice(0, 2);
      i++;
    } else if (c === '[') {
      const end = findClassEnd(pattern, i);
      out += pattern.slice(i, end + 1);
      i = end;
    } else if (rest.startsWith('(?i)')) {
      out += '(?i:';
      opened[opened.length - 1]!++;
      i += 3;
    } else if (rest.startsWith('(?P<')) {
      out += '(?:';
      opened.push(0);
      i += rest.indexOf('>');
    } else if (c === '(') {
      out += c;
      opened.push(0);
    } else if (c === ')') {
      closeFlags();
      out += c;
    } else out += c;
  }
  while (opened.length > 0) closeFlags();
  return out;
}
