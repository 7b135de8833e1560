// The command line of a declared tool: pieces with {names} in them, filled in with values. A value
// is always part of one argument, never several, never an option, never seen by a shell. Pure.

/** One argument, or several that are only there when a parameter is given. */
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
    const given = values[piece.if];
    if (given === undefined || given === false) return [];
    return piece.add.map((word) => fill(word, values));
  });
}

type ArgvWord = { word: string; path: (string | number)[]; afterDashes: boolean };

function listWords(argv: readonly Piece[]): ArgvWord[] {
  let afterDashes = false;
  return argv.flatMap((piece, at) => {
    const words = typeof piece === 'string' ? [piece] : piece.add;
    const placed = words.map((word) => ({ word, path: ['argv', at], afterDashes }));
    // Only what is always there ends the options.
    if (piece === '--') afterDashes = true;
    return placed;
  });
}

/** What begins an argument: the first of them, and the next ones where those before are empty. */
const LEADING = /^(?:\{[a-z][a-z0-9_]*\})+/;

/** The parameters whose value begins an argument that a program might take for an option. */
export function findLeadingNames(argv: readonly Piece[]): Set<string> {
  const words = listWords(argv).filter(({ afterDashes }) => !afterDashes);
  return new Set(words.flatMap(({ word }) => findNames(LEADING.exec(word)?.[0] ?? '')));
}
