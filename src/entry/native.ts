// Finds the native programs that the build puts beside the bundles.
import { existsSync } from 'node:fs';
import { fault } from '../wire/errors.ts';
import { nativePath } from './options.ts';

export function assertNative(name: 'warden'): string {
  const program = nativePath(name);
  if (existsSync(program)) return program;
  throw fault('unavailable', `${program} not found; it starts every sandbox`, {
    hint: 'Build it: make native (needs cc).',
  });
}
