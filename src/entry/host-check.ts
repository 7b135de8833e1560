// Probes the sandbox features of this host without a runtime, with a temporary warden. Prints one
// JSON document.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { makeWarden } from '../daemons/sandboxd/adapters/warden.ts';
import { hostUser, wardenPaths } from '../daemons/sandboxd/bounds.ts';
import { makeIdentities } from '../daemons/sandboxd/identities.ts';
import { makeLevels } from '../daemons/sandboxd/levels.ts';
import { silentLog } from '../platform/log.ts';
import { makePrivateDir } from '../platform/state-dir.ts';
import { Fault, fault } from '../wire/errors.ts';
import { loadRuntimeConfig, readArgv } from './options.ts';
import { startWarden } from './warden.ts';

async function check(stateArgv: string[]): Promise<unknown> {
  const config = loadRuntimeConfig(readArgv(stateArgv)).sandboxd;
  const base = mkdtempSync(join(tmpdir(), 'agentd-check-'));
  try {
    const stateDir = makePrivateDir(join(base, 'state'));
    makePrivateDir(join(stateDir, 'logs'));
    const runtimeDir = makePrivateDir(join(base, 'r'));
    const log = silentLog;
    const child = await startWarden({ config, stateDir, runtimeDir, clientPid: process.pid, log });
    const warden = makeWarden(wardenPaths(runtimeDir).socket);
    try {
      const host = hostUser(runtimeDir);
      const store = { assignUid: async () => config.uid_last };
      const identities = makeIdentities({ config, store, host });
      return await makeLevels({ config, warden, identities }).view();
    } finally {
      warden.close();
      await child.stop(3_000);
    }
  } finally {
    rmSync(base, { recursive: true, force: true });
  }
}

const { values } = parseArgs({ options: { state: { type: 'string' } } });
try {
  const argv = values.state === undefined ? [] : ['--state', values.state];
  process.stdout.write(`${JSON.stringify(await check(argv))}\n`);
} catch (error) {
  const known = error instanceof Fault ? error : fault('internal', (error as Error).message);
  process.stdout.write(`${JSON.stringify({ error: known.toBody() })}\n`);
  process.exitCode = 1;
}
