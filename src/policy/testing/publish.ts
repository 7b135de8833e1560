// Publishes a policy as agentd does, for tests and benchmarks.
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { Manifest } from '../../wire/manifest.ts';
import { sealBundle, writeBundle } from '../bundle-file.ts';
import { extractRights } from '../manifest-rules.ts';

/** `agents`: the spec of each manifest by name. `site`: the text of one rule file. */
export function publishPolicy(
  stateDir: string,
  { version = 1, agents, site = '' }: { version?: number; agents: object; site?: string },
): void {
  const none = { cpu: null, memoryBytes: null, pids: null, diskBytes: null };
  const rights = Object.entries(agents).map(([name, spec]) => {
    const manifest = { apiVersion: 'agentd/v1', kind: 'Agent', metadata: { name }, spec };
    return [name, extractRights(Manifest.parse(manifest), none)];
  });
  const content = {
    people: null,
    protected: [],
    agents: Object.fromEntries(rights),
    site: site === '' ? [] : [{ file: 'test.cedar', text: site }],
  };
  mkdirSync(join(stateDir, 'policy'), { recursive: true, mode: 0o700 });
  const bundle = sealBundle(content, { version, madeAt: '2026-06-29T18:00:00.000Z' });
  writeBundle(join(stateDir, 'policy', 'bundle.json'), bundle);
}
