// Prepares a command of a person for its box: the program itself, what its profile adds, and what
// it may know about the person's terminal.
import type { CreateProgram } from '../../../wire/agentd.ts';
import type { CommandEnv } from '../env.ts';
import { findProgram } from './find-program.ts';
import { findProfile } from './profiles/index.ts';

/** Variables about the person's terminal and language; nothing secret. */
const PASSED = ['TERM', 'COLORTERM', 'LANG', 'LANGUAGE', 'TZ', 'NO_COLOR', 'FORCE_COLOR'];

export function prepareProgram(
  words: readonly string[],
  env: CommandEnv,
  profileName?: string,
): CreateProgram['command'] {
  const { argv, shown } = findProgram(words, env.PATH);
  const profile = findProfile(profileName, words[0]!);
  return {
    argv: [...argv],
    env: { ...pickTerminal(env), ...profile.env },
    ...(shown.length === 0 ? {} : { programs: [...shown] }),
    ...(profile.homeFiles.length === 0 ? {} : { home_files: [...profile.homeFiles] }),
  };
}

export function pickTerminal(env: CommandEnv): Record<string, string> {
  const names = Object.keys(env).filter((name) => PASSED.includes(name) || name.startsWith('LC_'));
  return Object.fromEntries(names.map((name) => [name, env[name] ?? '']));
}
