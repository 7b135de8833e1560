// docs/metrics.md describes every metric that a daemon reports, and no other.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { it } from 'node:test';
import { ROOT } from '../support/runtime.ts';

const SUFFIXES = { count: '_total', gauge: '', observe: '', observeMs: '_ms' } as const;

function listReported(): string[] {
  const src = join(ROOT, 'src');
  const files = readdirSync(src, { recursive: true, encoding: 'utf8' }).filter((file) =>
    /^(platform|daemons)\/.*(?<!\.test)\.ts$/.test(file),
  );
  const names = files.flatMap((file) => {
    const text = readFileSync(join(src, file), 'utf8');
    const calls = text.matchAll(/metrics\.(count|gauge|observe|observeMs)\(\s*'(\w+)'/g);
    return [...calls].map(([, kind, name]) => `${name}${SUFFIXES[kind as keyof typeof SUFFIXES]}`);
  });
  const counters = readFileSync(join(src, 'daemons/agentd/counters.ts'), 'utf8');
  const byEvent = [...counters.matchAll(/^ {2}'[a-z.]+': '(\w+)',$/gm)];
  return [...names, ...byEvent.map(([, name]) => `${name}_total`)].map((name) => `agentd_${name}`);
}

it('every metric is described, and every described one is reported', () => {
  const page = readFileSync(join(ROOT, 'docs', 'metrics.md'), 'utf8');
  const described = [...page.matchAll(/`(agentd_\w+)`/g)].map(([, name]) => name!);
  const reported = listReported();
  assert.ok(reported.length > 30, reported.join());
  assert.deepEqual([...new Set(described)].sort(), [...new Set(reported)].sort());
});
