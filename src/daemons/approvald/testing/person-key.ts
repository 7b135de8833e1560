// Test helper: writes a person's key, as `agentctl person add` does.
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

export function writePersonKey(stateDir: string, name: string, role = 'operator'): void {
  const dir = join(stateDir, 'people');
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  writeFileSync(join(dir, `${name}.key`), `${name.repeat(32)}\nrole: ${role}\n`, { mode: 0o600 });
}
