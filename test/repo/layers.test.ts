// The layer check accepts this tree and reports each kind of forbidden import.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Files, makeTree, runTool } from './fixture.ts';

const peers: Files = {
  'src/wire/errors.ts': ['export const FAULTS = {};'],
  'src/wire/toold.ts': ['export const CallBody = 1;', 'export type Call = string;'],
  'src/platform/clock.ts': ['export const now = 1;'],
  'src/daemons/toold/service.ts': ['export const work = 1;'],
};

const forbidden: Record<string, { path: string; lines: string[]; says: RegExp }> = {
  'wire uses Node': {
    path: 'src/wire/primitives.ts',
    lines: ["import { readFileSync } from 'node:fs';"],
    says: /src\/wire\/primitives\.ts:1: imports node:fs: wire holds/,
  },
  'wire uses platform': {
    path: 'src/wire/primitives.ts',
    lines: ["import { now } from '../platform/clock.ts';"],
    says: /imports \.\.\/platform\/clock\.ts: wire holds/,
  },
  'platform knows a daemon': {
    path: 'src/platform/link.ts',
    lines: ["import type { Work } from '../daemons/toold/service.ts';"],
    says: /platform knows no daemon/,
  },
  'a daemon imports another daemon': {
    path: 'src/daemons/modeld/service.ts',
    lines: ["import type { Work } from '../toold/service.ts';"],
    says: /to ask another, use its client/,
  },
  'a daemon imports another lazily': {
    path: 'src/daemons/modeld/service.ts',
    lines: ["export const late = () => import('../toold/service.ts');"],
    says: /to ask another, use its client/,
  },
  'a daemon re-exports another': {
    path: 'src/daemons/modeld/service.ts',
    lines: ["export { work } from '../toold/service.ts';"],
    says: /to ask another, use its client/,
  },
  'the service imports its api': {
    path: 'src/daemons/toold/service.ts',
    lines: ["import { handlers } from './api.ts';"],
    says: /service must not import api/,
  },
  'the runner imports values of wire': {
    path: 'src/runner/main.ts',
    lines: ["import { CallBody } from '../wire/toold.ts';"],
    says: /only types are allowed: the runner/,
  },
  'the runner imports another part of platform': {
    path: 'src/runner/main.ts',
    lines: ["import { now } from '../platform/clock.ts';"],
    says: /clock\.ts: the runner must start fast/,
  },
  'the HTTP client imports a package': {
    path: 'src/platform/http1/client.ts',
    lines: ["import { z } from 'zod';"],
    says: /imports zod: the runner and agentctl load it/,
  },
  'the runner imports a package': {
    path: 'src/runner/main.ts',
    lines: ["import { z } from 'zod';"],
    says: /imports zod: the runner/,
  },
  'a client imports values of wire': {
    path: 'src/clients/agentctl/main.ts',
    lines: ["import { type Call, CallBody } from '../../wire/toold.ts';"],
    says: /only types are allowed: a client/,
  },
  'a client imports a daemon': {
    path: 'src/clients/agentctl/main.ts',
    lines: ["import { work } from '../../daemons/toold/service.ts';"],
    says: /a client speaks wire/,
  },
  'a program imports test support': {
    path: 'src/platform/link.ts',
    lines: ["import { fake } from './testing/fake.ts';"],
    says: /only tests use what is made for tests/,
  },
  'a file is in no layer': {
    path: 'src/extra/thing.ts',
    lines: ['export const thing = 1;'],
    says: /in no layer/,
  },
  'rules use Node': {
    path: 'src/daemons/toold/rules.ts',
    lines: ["import { createHash } from 'node:crypto';"],
    says: /rules are pure, but this imports node:crypto/,
  },
  'rules wait': {
    path: 'src/daemons/toold/rules.ts',
    lines: ['export const decide = async () => 1;'],
    says: /rules are pure, but this waits/,
  },
  'rules read the clock': {
    path: 'src/daemons/toold/rules.ts',
    lines: ['export const at = Date.now();'],
    says: /calls Date\.now/,
  },
  'rules read the time': {
    path: 'src/daemons/toold/expiry-rules.ts',
    lines: ['export const at = new Date();'],
    says: /reads the clock/,
  },
  'rules use randomness': {
    path: 'src/daemons/toold/rules.ts',
    lines: ['export const roll = Math.random();'],
    says: /calls Math\.random/,
  },
};

for (const [name, { path, lines, says }] of Object.entries(forbidden)) {
  test(`refused: ${name}`, (t) => {
    const root = makeTree(t, { ...peers, [path]: lines });
    const { status, output } = runTool('check-layers.ts', '--root', root);
    assert.match(output, says);
    assert.equal(status, 1);
  });
}

test('refused: files that import each other, even by type', (t) => {
  const ring = (last: string): Files => ({
    'src/daemons/toold/job.ts': ["import type { Event } from './events.ts';"],
    'src/daemons/toold/events.ts': ["export type { Verdict } from './permission.ts';"],
    'src/daemons/toold/permission.ts': [last],
    'src/daemons/toold/api.ts': ["import './job.ts';", "import './events.ts';"],
  });
  const broken = makeTree(t, ring("import { type Job } from './job.ts';"));
  const { status, output } = runTool('check-layers.ts', '--root', broken);
  assert.equal(status, 1);
  const [events, job, permission] = ['events', 'job', 'permission'].map(
    (name) => `src/daemons/toold/${name}.ts`,
  );
  const cycle = [job, events, permission, job].join(' → ');
  assert.equal(output, `${permission}:1: closes a cycle of imports: ${cycle}\nlayers: 1 to mend\n`);
  const whole = makeTree(t, ring('export type Job = string;'));
  assert.deepEqual(runTool('check-layers.ts', '--root', whole), { status: 0, output: '' });
});

test('what the table allows passes', (t) => {
  const root = makeTree(t, {
    ...peers,
    'src/wire/primitives.ts': ["import { z } from 'zod';", 'export const a = z;'],
    'src/daemons/modeld/service.ts': [
      "import { now } from '../../platform/clock.ts';",
      "import { CallBody } from '../../wire/toold.ts';",
      "import { decide } from './rules.ts';",
      'export const all = [now, CallBody, decide];',
    ],
    'src/daemons/modeld/rules.ts': [
      '// Talks of await and Date.now() in a comment only.',
      "import type { Store } from './store.ts';",
      "export const decide = (at: string, s: Store) => new Date(at) && s && 'await Date.now()';",
    ],
    'src/daemons/modeld/rules.test.ts': ["import { test } from 'node:test';", 'test;'],
    'src/clients/agentctl/testing/fake.ts': ["import '../../../wire/toold.ts';", 'export {};'],
    'src/platform/http1/client.ts': ["import { FAULTS } from '../../wire/errors.ts';", 'FAULTS;'],
    'src/runner/main.ts': [
      "import net from 'node:net';",
      "import '../platform/http1/client.ts';",
      "import type { Call } from '../wire/toold.ts';",
      'export const x = (call: Call) => net.connect(call);',
    ],
    'src/clients/agentctl/main.ts': [
      "import type { Call } from '../../wire/toold.ts';",
      "import { FAULTS } from '../../wire/errors.ts';",
      'export const x = (call: Call) => [call, FAULTS];',
    ],
  });
  assert.deepEqual(runTool('check-layers.ts', '--root', root), { status: 0, output: '' });
});

test('this tree respects its layers', () => {
  const { status, output } = runTool('check-layers.ts');
  assert.equal(status, 0, output);
});
