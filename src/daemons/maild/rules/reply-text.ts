// Takes the new text out of a reply, and text out of HTML. Pure; every pattern is linear.

const ATTRIBUTION =
  /^(On .{1,200} wrote:|Am .{1,200} schrieb.{0,100}:|Le .{1,200} écrit ?:|.{1,200} wrote:)$/;
const ORIGINAL = /^-{2,} ?(Original|Forwarded) [Mm]essage ?-{2,}$/;

/** Without quoted lines, what introduces them, and the signature. */
export function readNewText(text: string): string {
  const lines = text.replace(/\r\n?/g, '\n').split('\n');
  const kept: string[] = [];
  for (const [i, line] of lines.entries()) {
    if (line === '-- ' || ORIGINAL.test(line.trim())) break;
    if (line.startsWith('>')) continue;
    if (ATTRIBUTION.test(line.trim()) && isQuoteNext(lines, i)) continue;
    kept.push(line);
  }
  return kept.join('\n').trim();
}

const isQuoteNext = (lines: readonly string[], at: number): boolean =>
  lines.slice(at + 1, at + 3).some((line) => line.startsWith('>'));

const ENTITIES: Readonly<Record<string, string>> = {
  amp: '&',
  lt: '<',
  gt: '>',
  quot: '"',
  apos: "'",
  nbsp: ' ',
};
/** Elements whose contents are not text. */
const HIDDEN = new Set(['script', 'style', 'head', 'title', 'template', 'noscript', 'svg', 'math']);
const BREAKS = /^\/?(p|div|br|li|ul|ol|tr|table|h[1-6]|blockquote|pre|hr|section|article)$/;

/** One pass, without a parser that hostile HTML could confuse: what is left is plain text. */
export function htmlToText(html: string): string {
  let out = '';
  let hiddenIn: string | undefined;
  for (let at = 0; at < html.length; ) {
    const open = html.indexOf('<', at);
    const text = html.slice(at, open === -1 ? html.length : open);
    if (hiddenIn === undefined) out += text.replace(/\s+/g, ' ');
    if (open === -1) break;
    const isComment = html.startsWith('<!--', open);
    const end = isComment ? html.indexOf('-->', open + 4) : html.indexOf('>', open);
    if (end === -1) break;
    const name = html
      .slice(open + 1, open + 30)
      .toLowerCase()
      .match(/^\/?[a-z][a-z0-9]*/)?.[0];
    if (!isComment && name !== undefined) {
      if (hiddenIn === undefined && HIDDEN.has(name)) hiddenIn = name;
      else if (name === `/${hiddenIn}`) hiddenIn = undefined;
      else if (hiddenIn === undefined && BREAKS.test(name)) out += '\n';
    }
    at = end + (isComment ? 3 : 1);
  }
  return out
    .replace(/&(#x?[0-9a-f]{1,6}|[a-z]{1,8});/gi, (all, name: string) => decodeEntity(name) ?? all)
    .replace(/[ \t]+\n/g, '\n')
    .replace(/\n[ \t]+/g, '\n')
    .replace(/\n{3,}/g, '\n\n')
    .trim();
}

function decodeEntity(name: string): string | undefined {
  if (!name.startsWith('#')) return ENTITIES[name.toLowerCase()];
  const isHex = /^#x/i.test(name);
  const code = Number.parseInt(name.slice(isHex ? 2 : 1), isHex ? 16 : 10);
  return code > 0 && code <= 0x10_ff_ff && (code < 0xd800 || code > 0xdfff)
    ? String.fromCodePoint(code)
    : undefined;
}
