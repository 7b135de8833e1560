// Test helper: copies agentctl's sources beside stub programs, so that `up` and `audit verify`
// start those instead of the real ones.
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const SOURCE = fileURLToPath(new URL('../../../', import.meta.url));

/** `programs`: path below src/ → its text. */
export function copyProgram(programs: Readonly<Record<string, string>>) {
  const root = mkdtempSync(join(tmpdir(), 'actl-copy-'));
  const src = join(root, 'src');
  for (const part of ['clients/agentctl', 'wire', 'platform'])
    cpSync(join(SOURCE, part), join(src, part), { recursive: true });
  writeFileSync(join(root, 'package.json'), '{"name":"agentd","version":"9.9.9","type":"module"}');
  // As root `up` starts the keeper; this stub execs the program.
  mkdirSync(join(root, 'build'));
  writeFileSync(join(root, 'build', 'keeper'), '#!/bin/sh\nexec "$@"\n', { mode: 0o755 });
  cpSync(join(SOURCE, '..', 'build', 'supervisor'), join(root, 'build', 'supervisor'));
  for (const [path, text] of Object.entries(programs)) {
    mkdirSync(dirname(join(src, path)), { recursive: true });
    writeFileSync(join(src, path), text);
  }
  return {
    main: join(src, 'clients/agentctl/main.ts'),
    remove: () => rmSync(root, { recursive: true, force: true }),
  };
}
