// Splits a Markdown file into its YAML front matter and its body, with the lines where they start.

export type FrontMatter = {
  /** Undefined: the file has none. Its first line is line 2 of the file. */
  yaml: string | undefined;
  body: string;
  /** The line of the file at which the body starts. */
  bodyLine: number;
};

const FENCE = /^---[ \t]*$/;

/** Returns undefined if the front matter is opened and not closed. */
export function splitFrontMatter(text: string): FrontMatter | undefined {
  const lines = text.replace(/^\ufeff/, '').split(/\r?\n/);
  if (!FENCE.test(lines[0]!)) return { yaml: undefined, body: lines.join('\n'), bodyLine: 1 };
  const end = lines.findIndex((line, i) => i > 0 && FENCE.test(line));
  if (end < 0) return undefined;
  return {
    yaml: lines.slice(1, end).join('\n'),
    body: lines.slice(end + 1).join('\n'),
    bodyLine: end + 2,
  };
}
