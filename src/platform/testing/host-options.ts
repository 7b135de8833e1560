// Test helper: the options for hosting one daemon as a runtime does, with its state and its sockets
// below one directory.
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import type { HostOptions } from '../daemon.ts';
import { makeIdMaker } from '../ids.ts';
import { silentLog } from '../log.ts';

export function makeHostOptions({
  dir,
  failpoint,
  ...options
}: Pick<HostOptions, 'clock' | 'config' | 'here'> & {
  dir: string;
  failpoint?: HostOptions['failpoint'] | undefined;
}): HostOptions {
  return {
    version: '0.0.0',
    mode: 'embedded',
    operatorKey: 'k'.repeat(43),
    log: silentLog,
    stateDir: join(dir, 'state'),
    runtimeDir: join(dir, 'run'),
    random: randomBytes,
    newId: makeIdMaker(options.clock),
    ...options,
    ...(failpoint === undefined ? {} : { failpoint }),
  };
}
