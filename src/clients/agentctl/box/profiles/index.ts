// The profiles that there are, and which one is meant.
import { basename } from 'node:path';
import { fault } from '../../../../wire/errors.ts';
import { claudeCode } from './claude-code.ts';
import { codex } from './codex.ts';
import { generic } from './generic.ts';
import { opencode } from './opencode.ts';
import type { Profile } from './profile.ts';

export const PROFILES: readonly Profile[] = [claudeCode, codex, opencode, generic];

/** The one that was named, else that of the command's name. */
export function findProfile(name: string | undefined, command: string): Profile {
  if (name === undefined)
    return PROFILES.find(({ commands }) => commands.includes(basename(command))) ?? generic;
  const found = PROFILES.find((profile) => profile.name === name);
  if (found !== undefined) return found;
  throw fault('bad_usage', `there is no profile ${name}`, {
    hint: `Use one of ${PROFILES.map((profile) => profile.name).join(', ')}.`,
  });
}
