// Names that stand for a model of another name: those of the configuration and of operators, and
// the names that vendors' programs ask for without being told to.
import { fitsPattern } from '../../../platform/name-pattern.ts';

/** In the pattern * stands for any characters. */
export type ModelAlias = { pattern: string; model: string };

/** The name that stands for the default model. */
export const DEFAULT = 'default';

/** Asked for by Claude Code, Codex and the vendors' own examples. */
export const VENDOR_NAMES: readonly string[] = [
  'claude-*',
  'gpt-*',
  'chatgpt-*',
  'codex-*',
  'o1*',
  'o3*',
  'o4*',
];

export function isVendorName(name: string): boolean {
  return VENDOR_NAMES.some((pattern) => fitsPattern(pattern, name));
}

/** Returns the model that the most specific alias of a name stands for. */
export function findAlias(aliases: readonly ModelAlias[], name: string): string | undefined {
  let found: ModelAlias | undefined;
  for (const alias of aliases) {
    if (!fitsPattern(alias.pattern, name)) continue;
    if (found === undefined || compareSpecificity(alias.pattern, found.pattern) < 0) found = alias;
  }
  return found?.model;
}

/** A pattern without * is the most specific, then the one with the most other characters. */
function compareSpecificity(a: string, b: string): number {
  const isWild = (pattern: string) => Number(pattern.includes('*'));
  const countLiterals = (pattern: string) => pattern.replaceAll('*', '').length;
  return isWild(a) - isWild(b) || countLiterals(b) - countLiterals(a) || (a < b ? -1 : 1);
}
