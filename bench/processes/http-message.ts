// Reads HTTP/1.1 messages from a kept connection with minimal work: the benchmarks' own load and
// upstream must not dominate a measurement. Texts are latin1, so that characters are bytes.

export type HttpMessage = { head: string; body: string; length: number };

const HEAD_END = '\r\n\r\n';
const CHUNKS_END = '0\r\n\r\n';

/** Returns the first complete message of the text, or undefined if it is incomplete. */
export function readMessage(text: string): HttpMessage | undefined {
  const headEnd = text.indexOf(HEAD_END);
  if (headEnd < 0) return undefined;
  const head = text.slice(0, headEnd).toLowerCase();
  const start = headEnd + HEAD_END.length;
  const at = head.indexOf('\r\ncontent-length:');
  if (at >= 0) {
    const length = start + Number.parseInt(head.slice(at + 17), 10);
    return text.length < length ? undefined : { head, body: text.slice(start, length), length };
  }
  if (!head.includes('\r\ntransfer-encoding: chunked')) return { head, body: '', length: start };
  const last = text.startsWith(CHUNKS_END, start)
    ? start
    : text.indexOf(`\r\n${CHUNKS_END}`, start);
  if (last < 0) return undefined;
  const length = last + CHUNKS_END.length + (last === start ? 0 : 2);
  return { head, body: text.slice(start, last), length };
}
