// A profile describes how a kind of program is found and prepared for its box. `generic` fits every
// program that needs nothing else.
import type { CommandEnv } from '../env.ts';

export type PreparedProgram = {
  /** As the box sees them. */
  argv: readonly string[];
  env: Record<string, string>;
};

export type Profile = {
  name: string;
  prepare(words: readonly string[]): PreparedProgram;
};

/** Variables about the person's terminal and language; nothing secret. */
const PASSED = ['TERM', 'COLORTERM', 'LANG', 'LANGUAGE', 'TZ', 'NO_COLOR', 'FORCE_COLOR'];

export function makeGenericProfile(env: CommandEnv): Profile {
  return {
    name: 'generic',
    prepare: (words) => ({ argv: words, env: pickTerminal(env) }),
  };
}

function pickTerminal(env: CommandEnv): Record<string, string> {
  const names = Object.keys(env).filter((name) => PASSED.includes(name) || name.startsWith('LC_'));
  return Object.fromEntries(names.map((name) => [name, env[name] ?? '']));
}
