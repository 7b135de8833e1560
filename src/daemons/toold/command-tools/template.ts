// Fills values into a declared tool's command line, whose pieces contain {names}. A value is always
// part of one argument, never several, never an option, and never seen by a shell. Pure.

/** One argument, or several that depend on a parameter. */
export type Piece = string | { if: string; add: string[] };

const NAME = /\{([a-z][a-z0-9_]*)\}/g;

export const findNames = (word: string): string[] =>
  [...word.matchAll(NAME)].map(([, name]) => name!);

export type Values = Readonly<Record<string, string | number | boolean | undefined>>;

const fill = (word: string, values: Values): string =>
  word.replace(NAME, (_, name: string) => String(values[name]));

export function fillIn(argv: readonly Piece[], values: Values): string[] {
  return argv.flatMap((piece) => {
    if (typeof piece === 'string') return [fill(piece, values)];
    const value = values[piece.if];
    if (value === undefined || value === false) return [];
    return piece.add.map((word) => fill(word, values));
  });
}

type ArgvWord = { word: string; path: (string | number)[]; afterDashes: boolean };

function listWords(argv: readonly Piece[]): ArgvWord[] {
  let afterDashes = false;
  return argv.flatMap((piece, at) => {
    const words = typeof piece === 'string' ? [piece] : piece.add;
    const placed = words.map((word) => ({ word, path: ['argv', at], afterDashes }));
    // A conditional "--" may be absent, so it does not count.
    if (piece === '--') afterDashes = true;
    return placed;
  });
}

/** The leading names: the first one, and the following where earlier values are empty. */
const LEADING = /^(?:\{[a-z][a-z0-9_]*\})+/;

/** The parameters whose value begins an argument that a program might take for an option. */
export function findLeadingNames(argv: readonly Piece[]): Set<string> {
  const words = listWords(argv).filter(({ afterDashes }) => !afterDashes);
  return new Set(words.flatMap(({ word }) => findNames(LEADING.exec(word)?.[0] ?? '')));
}
