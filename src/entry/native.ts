// The programs in C that the build made beside the bundles, found or missed in words.
import { existsSync } from 'node:fs';
import { fault } from '../wire/errors.ts';
import { nativePath } from './options.ts';

export function assertNative(name: 'warden'): string {
  const program = nativePath(name);
  if (existsSync(program)) return program;
  throw fault('unavailable', `${program} is not there: it starts every sandbox`, {
    hint: 'make native   (needs cc)',
  });
}
