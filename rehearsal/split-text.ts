// Truncates text to a length, and splits it into the chunks of a stream. Never splits a surrogate
// pair, because half of one is not valid UTF-8.

const CHUNK_CHARS = 48;

function isHighSurrogate(code: number): boolean {
  return code >= 0xd800 && code < 0xdc00;
}

export function truncateText(text: string, charsMax: number): string {
  if (text.length <= charsMax) return text;
  const end = isHighSurrogate(text.charCodeAt(charsMax - 1)) ? charsMax - 1 : charsMax;
  return text.slice(0, end);
}

export function splitText(text: string): string[] {
  const chunks: string[] = [];
  for (let start = 0; start < text.length; ) {
    let end = Math.min(text.length, start + CHUNK_CHARS);
    if (end < text.length && isHighSurrogate(text.charCodeAt(end - 1))) end += 1;
    chunks.push(text.slice(start, end));
    start = end;
  }
  return chunks;
}
