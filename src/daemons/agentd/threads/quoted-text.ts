// Leaves out of a message what it quotes of the thread it belongs to. Pure.

const QUOTE = /^\s*>+ ?/;
const NESTED = /^\s*>\s*>/;
const FENCE = /^\s*(```|~~~)/;
const ATTRIBUTION = /^.{0,200}(wrote|schrieb|écrit).{0,100}:\s*$/;

const isDeep = (line: string): boolean =>
  NESTED.test(line) || ATTRIBUTION.test(line.replace(QUOTE, ''));

const toWords = (text: string): string =>
  (
    text
      .normalize('NFKC')
      .toLowerCase()
      .match(/[\p{L}\p{N}]+/gu) ?? []
  ).join(' ');

export const hasQuotes = (text: string): boolean => /^\s*>/m.test(text);

/**
 * Removes quotes of quotes, and quoted lines that `earlier` has. Other quotes stay: they may be of
 * a document. So do lines of code.
 */
export function removeQuotes(
  text: string,
  earlier: readonly string[],
): { text: string; removed: number } {
  const said = earlier.map((one) => ` ${toWords(one)} `);
  const isSaid = (line: string): boolean => {
    const words = toWords(line.replace(QUOTE, ''));
    return words === '' || said.some((one) => one.includes(` ${words} `));
  };
  const kept: string[] = [];
  let removed = 0;
  let isCode = false;
  for (const line of text.split('\n')) {
    if (FENCE.test(line)) isCode = !isCode;
    const isOld = !isCode && QUOTE.test(line) && (isDeep(line) || isSaid(line));
    if (!isOld) {
      kept.push(line);
      continue;
    }
    removed++;
    if (kept.length > 0 && ATTRIBUTION.test(kept.at(-1)!)) kept.pop();
  }
  const rest = kept.join('\n').trim();
  return removed === 0 ? { text, removed } : { text: rest, removed };
}
