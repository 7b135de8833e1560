// Cuts texts: to a length, or into the pieces of a stream. Never between the two halves of a
// character outside the basic plane, because half a character is not valid UTF-8.

const pieceChars = 48;

function isFirstHalf(code: number): boolean {
  return code >= 0xd800 && code < 0xdc00;
}

export function cutText(text: string, charsMax: number): string {
  if (text.length <= charsMax) return text;
  const end = isFirstHalf(text.charCodeAt(charsMax - 1)) ? charsMax - 1 : charsMax;
  return text.slice(0, end);
}

export function splitText(text: string): string[] {
  const pieces: string[] = [];
  for (let at = 0; at < text.length; ) {
    let end = Math.min(text.length, at + pieceChars);
    if (end < text.length && isFirstHalf(text.charCodeAt(end - 1))) end += 1;
    pieces.push(text.slice(at, end));
    at = end;
  }
  return pieces;
}
