// The runtime of a soak: its agents, rules, plays and counted effects.
import { mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Installation, makeInstallation } from '../support/installation.ts';
import { writableFile } from '../support/runtime.ts';
import { manifestOf } from '../support/scripted-world.ts';

const RULE = `@ask("every release needs a person")
forbid (
  principal == Agent::"releaser",
  action == Action::"tool.call",
  resource == Tool::"test.count_effect"
);
`;
const SPEC = JSON.stringify({
  replicas: 8,
  tools: { allow: ['test.tools', 'task.delegate', 'file.read', 'file.write_workspace'] },
});
const AGENTS = ['planner', 'coder', 'researcher', 'releaser'];

export type SoakSite = Installation & {
  /** Key → number of times it happened. */
  effects(): Map<string, number>;
};

export function makeSoakSite(mode: 'embedded' | 'split'): SoakSite {
  // Kept after a failure, unlike the directories of tests. Short, because sockets are in there.
  const base = mkdtempSync(join(tmpdir(), 's-'));
  const effectFile = writableFile(join(base, 'effects'));
  const policies = join(base, 'state', 'policies');
  mkdirSync(policies, { recursive: true, mode: 0o700 });
  writeFileSync(join(policies, '10-releases.cedar'), RULE);
  const installation = makeInstallation({
    base,
    mode,
    agents: Object.fromEntries(AGENTS.map((name) => [name, manifestOf(name, SPEC)])),
    config: JSON.stringify({
      agentd: { crashes_max: 100_000, runs_live_max: 8 },
      modeld: { screenplays_dir: join(import.meta.dirname, 'screenplays') },
      toold: { test_tools: true, test_effect_file: effectFile },
      // Spare runners have ended before the check that nothing is left.
      sandboxd: { runner_spare_idle_ms: 5_000 },
    }),
    up: ['--restarts', '100'],
  });
  return { ...installation, effects: () => countLines(effectFile) };
}

function countLines(file: string): Map<string, number> {
  const counts = new Map<string, number>();
  for (const line of readFileSync(file, 'utf8').split('\n'))
    if (line !== '') counts.set(line, (counts.get(line) ?? 0) + 1);
  return counts;
}
