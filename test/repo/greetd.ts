// A toy daemon, added by docs/checklists/add-a-daemon.md: the changes that each step makes to a
// tree.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { addFiles } from './fixture.ts';

/** Inserts `text` before the first occurrence of `anchor`. */
function insert(root: string, path: string, changes: readonly (readonly [string, string])[]): void {
  const full = join(root, path);
  let content = readFileSync(full, 'utf8');
  for (const [anchor, text] of changes) {
    if (!content.includes(anchor)) throw new Error(`${path} has no ${anchor}`);
    content = content.replace(anchor, () => `${text}${anchor}`);
  }
  writeFileSync(full, content);
}

const ROW = `  greetd: {
    owns: 'greetings',
    calls: ['auditd-ai'],
    paths: ['/v1/greetings'],
  },
`;

const ROUTES = `// greetd's contract: it greets people.
import * as z from 'zod';
import { route, routes } from './route.ts';

export const greetdRoutes = routes({
  greet: route({
    method: 'GET',
    path: '/v1/greetings/{name}',
    callers: ['operator'],
    params: z.strictObject({ name: z.string().regex(/^[a-z]{1,32}$/) }),
    output: z.object({ greeting: z.string(), events: z.int() }),
  }),
});
`;

const CONFIG = `// The section \`greetd\` of agentd.yaml.
import * as z from 'zod';

export const greetdConfig = z.strictObject({
  /** Comes before the name. */
  salutation: z.string().max(100).default('Hello'),
});
export type GreetdConfig = z.output<typeof greetdConfig>;
`;

/** Occurs in no code but the daemon's own. */
export const MARKER = 'greetings-of-the-toy';

const API = `// The handlers of greetd's routes.
import type { Handlers } from '../../platform/dispatch.ts';
import type { Client } from '../../platform/link.ts';
import type { auditRoutes } from '../../wire/auditd-ai.ts';
import type { greetdRoutes } from '../../wire/greetd.ts';
import type { GreetdConfig } from './config.ts';

export function makeHandlers(
  config: GreetdConfig,
  audit: Pick<Client<typeof auditRoutes>, 'own'>,
): Handlers<typeof greetdRoutes> {
  return {
    async greet({ params }) {
      const { events } = await audit.own({ params: { store: '${MARKER}' }, query: { after: 0 } });
      return { greeting: \`\${config.salutation}, \${params.name}\`, events: events.length };
    },
  };
}
`;

const DAEMON = `// greetd as a value.
import { defineDaemon } from '../../platform/daemon.ts';
import { auditRoutes } from '../../wire/auditd-ai.ts';
import { greetdRoutes } from '../../wire/greetd.ts';
import { makeHandlers } from './api.ts';
import { greetdConfig } from './config.ts';

export const greetd = defineDaemon({
  name: 'greetd',
  routes: greetdRoutes,
  config: greetdConfig,
  async start(context) {
    const handlers = makeHandlers(context.config, context.peer('auditd-ai', auditRoutes));
    return { handlers, stop: async () => {} };
  },
});
`;

const README = `# greetd: greetings

It greets people. It is a daemon of its own because it is a toy. Whoever controls it can greet.
`;

const KEYS = `## greetd

| key | default | limit | unit | what |
|---|---|---|---|---|
| \`greetd.salutation\` | Hello | at most 100 characters | text | that comes before the name |

`;

const ROWS = `// The rows of greetd's routes.
import assert from 'node:assert/strict';
import { rows } from './row.ts';

export const ROWS = rows({
  greet: {
    unknownId: 'fine',
    good: async () => ({ params: { name: 'ann' } }),
    check: (answer: { greeting: string }) => assert.equal(answer.greeting, 'Hello, ann'),
  },
});
`;

/** The steps of the checklist in order: the file of each, and its change. */
export const STEPS: readonly { path: string; apply(root: string): void }[] = [
  edit('src/wire/daemons.ts', ["  'auditd-ai': { owns", ROW]),
  add('src/wire/greetd.ts', ROUTES),
  edit(
    'src/wire/contracts.ts',
    ['import { modeldRoutes }', "import { greetdRoutes } from './greetd.ts';\n"],
    ["  'auditd-ai': auditRoutes", '  greetd: greetdRoutes,\n'],
  ),
  add('src/daemons/greetd/config.ts', CONFIG),
  add('src/daemons/greetd/api.ts', API),
  add('src/daemons/greetd/daemon.ts', DAEMON),
  add('src/daemons/greetd/README.md', README),
  edit(
    'src/entry/daemon-modules.ts',
    ['import { modeldConfig }', "import { greetdConfig } from '../daemons/greetd/config.ts';\n"],
    ["  'auditd-ai': auditdConfig", '  greetd: greetdConfig,\n'],
    [
      "  'auditd-ai': async () =>",
      "  greetd: async () => (await import('../daemons/greetd/daemon.ts')).greetd,\n",
    ],
  ),
  edit('docs/config.md', ['## auditd-ai\n', KEYS]),
  add('test/wire/greetd-rows.ts', ROWS),
];

function add(path: string, text: string) {
  return { path, apply: (root: string) => addFiles(root, { [path]: text }) };
}

function edit(path: string, ...changes: readonly (readonly [anchor: string, text: string])[]) {
  return { path, apply: (root: string) => insert(root, path, changes) };
}
