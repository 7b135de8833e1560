// Checks every import of the tree against a table of layers. Files must not import each other in a
// cycle, even by type. Also checks that rules.ts files are pure, because their callers rely on it.
//   tools/check-layers.ts [--root DIR]
import { join, posix, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import {
  type Finding,
  type Import,
  listFiles,
  listImports,
  memberName,
  readSource,
  report,
  type Source,
  walkSyntax,
} from './source.ts';

type Layer = {
  /** Files below this folder belong to the layer; the first layer that matches a file wins. */
  folder: string;
  /** Folders whose values and types it may import, besides itself. */
  imports: readonly string[];
  /** Folders of which it may import types only. */
  types?: readonly string[];
  node: boolean;
  packages: readonly string[] | 'any';
  why: string;
};

const everything = ['src', 'rehearsal', 'test', 'bench', 'tools'];

const LAYERS: readonly Layer[] = [
  {
    folder: 'src/wire',
    imports: [],
    node: false,
    packages: ['zod'],
    why: 'wire holds schemas and types only: the schema library and itself',
  },
  {
    folder: 'src/platform/http1',
    imports: ['src/wire/errors.ts'],
    types: ['src/platform', 'src/wire'],
    node: true,
    packages: [],
    why: 'the runner and agentctl load it at every start: itself, the fault table and node:*',
  },
  {
    folder: 'src/platform',
    imports: ['src/wire'],
    node: true,
    packages: ['yaml', 'zod'],
    why: 'platform knows no daemon: wire, node:* and few packages',
  },
  // The three files of policy that access the disk, so that the others stay pure.
  ...['cedar.ts', 'bundle-file.ts', 'source.ts'].map((file) => ({
    folder: `src/policy/${file}`,
    imports: ['src/wire', 'src/platform', 'src/policy'],
    node: true,
    packages: ['@cedar-policy/cedar-wasm'],
    why: 'it reads what policy is made of: wire, platform, policy, node:* and Cedar',
  })),
  {
    folder: 'src/policy',
    imports: ['src/wire'],
    types: ['src/platform'],
    node: false,
    packages: [],
    why: 'policy is pure: values in, decision or plan out',
  },
  // The folders of maild that others' code handles mail in.
  ...[
    { folder: 'src/daemons/maild/intake', packages: ['smtp-server'] },
    { folder: 'src/daemons/maild/parser', packages: ['postal-mime'] },
    { folder: 'src/daemons/maild/outgoing', packages: ['nodemailer', 'zod'] },
  ].map((layer) => ({
    ...layer,
    imports: ['src/wire', 'src/platform', 'src/policy', 'src/daemons/maild'],
    node: true,
    why: 'it is a part of maild, and the only one with this package',
  })),
  {
    folder: 'src/daemons/*',
    imports: ['src/wire', 'src/platform', 'src/policy'],
    node: true,
    packages: ['yaml', 'zod'],
    why: 'a daemon imports itself, wire, platform, policy; to ask another, use its client',
  },
  {
    folder: 'src/runner',
    imports: ['src/platform/http1'],
    types: ['src/wire'],
    node: true,
    packages: [],
    why: "the runner must start fast and holds no right: itself, http1, node:* and wire's types",
  },
  {
    folder: 'src/clients/*',
    imports: ['src/platform', 'src/wire/daemons.ts', 'src/wire/errors.ts'],
    types: ['src/wire'],
    node: true,
    packages: [],
    why: "a client speaks wire and starts fast: itself, platform, wire's types and plain tables",
  },
  {
    folder: 'src/entry',
    imports: ['src', 'rehearsal'],
    node: true,
    packages: [],
    why: 'entry is wiring only: it needs no package',
  },
  {
    folder: 'rehearsal',
    imports: [],
    types: ['src/wire'],
    node: true,
    packages: ['yaml'],
    why: "the rehearsal model stands alone: itself, node:* and wire's types",
  },
  { folder: 'test', imports: [...everything, 'demo'], node: true, packages: 'any', why: '' },
  { folder: 'bench', imports: everything, node: true, packages: 'any', why: '' },
];

/** Tests belong to their subject's layer, and may also use these and the values of its `types`. */
const forTests = {
  packages: [
    '@anthropic-ai/sdk',
    '@cedar-policy/cedar-wasm',
    '@electric-sql/pglite',
    'fast-check',
    'openai',
  ],
  imports: ['test/support'],
};

/**
 * Inside a daemon: part → the parts whose values it must not import. Only main.ts starts daemon.ts.
 */
const INSIDE: Readonly<Record<string, readonly string[]>> = {
  rules: ['api', 'service', 'store', 'config', 'adapters', 'daemon', 'main'],
  store: ['api', 'service', 'daemon', 'main'],
  service: ['api', 'adapters', 'daemon', 'main'],
  adapters: ['api', 'daemon', 'main'],
  config: ['api', 'service', 'store', 'adapters', 'daemon', 'main'],
  api: ['adapters', 'daemon', 'main'],
};

/** A test, or what only tests use: x.test.ts, testing.ts, testing/x.ts. */
const isTest = (path: string): boolean => /\.test\.ts$|(^|\/)testing(\.ts$|\/)/.test(path);

/** The layer's folder for this file: `src/daemons/*` becomes `src/daemons/toold`. */
function folderFor(layer: Layer, path: string): string | undefined {
  const parts = layer.folder.split('/');
  const own = path.split('/').slice(0, parts.length);
  return parts.every((part, i) => part === '*' || part === own[i]) ? own.join('/') : undefined;
}

function lies(path: string, folders: readonly string[]): boolean {
  return folders.some((folder) => path === folder || path.startsWith(`${folder}/`));
}

/** Returns why this import is forbidden, or undefined. */
function checkImport(path: string, layer: Layer, one: Import): string | undefined {
  const { specifier, typeOnly } = one;
  const refused = `imports ${specifier}: ${layer.why}`;
  if (specifier.startsWith('node:')) return layer.node || isTest(path) ? undefined : refused;
  if (!specifier.startsWith('.')) {
    const name = specifier.split('/', specifier.startsWith('@') ? 2 : 1).join('/');
    if (layer.packages === 'any' || layer.packages.includes(name)) return undefined;
    return isTest(path) && forTests.packages.includes(name) ? undefined : refused;
  }
  const target = posix.join(posix.dirname(path), specifier);
  if (path.startsWith('src/') && isTest(target) && !isTest(path)) {
    return `imports ${specifier}: only tests use what is made for tests`;
  }
  const own = folderFor(layer, path) ?? layer.folder;
  if (lies(target, [own, ...layer.imports])) return checkInside(path, own, target, typeOnly);
  if (lies(target, layer.types ?? [])) {
    if (typeOnly || isTest(path)) return undefined;
    return `imports values of ${specifier}, only types are allowed: ${layer.why}`;
  }
  return isTest(path) && lies(target, forTests.imports) ? undefined : refused;
}

function checkInside(path: string, own: string, target: string, typeOnly: boolean) {
  const inDaemon = own.startsWith('src/daemons/') && lies(target, [own]);
  if (!inDaemon || typeOnly || isTest(path)) return undefined;
  const partOf = (file: string) =>
    file
      .slice(own.length + 1)
      .split('/')[0]!
      .replace(/\.ts$/, '');
  const [from, to] = [partOf(path), partOf(target)];
  if (from !== to && INSIDE[from]?.includes(to)) {
    return `${from} must not import ${to}: inside a daemon it is api, then service, then rules`;
  }
  return undefined;
}

const impureNames = new Set(['performance', 'crypto', 'process', 'fetch', 'setTimeout']);
const impureMembers = new Set(['Date.now', 'Math.random']);

/** Finds code in a rules file whose result does not depend on its arguments alone. */
function checkRules(source: Source): Finding[] {
  const found: Finding[] = [];
  const add = (start: number, what: string): void => {
    const text = `rules are pure, but this ${what}; pass the value in`;
    found.push({ path: source.path, line: source.lineAt(start), text });
  };
  for (const { specifier, line } of listImports(source)) {
    if (!specifier.startsWith('node:')) continue;
    found.push({ path: source.path, line, text: `rules are pure, but this imports ${specifier}` });
  }
  walkSyntax(source, (node) => {
    const member = memberName(node);
    if (member !== undefined && impureMembers.has(member)) add(node.start, `calls ${member}`);
    if (node.type === 'AwaitExpression' || node.async === true) add(node.start, 'waits');
    if (node.type === 'Identifier' && impureNames.has(String(node.name))) {
      add(node.start, `uses ${String(node.name)}`);
    }
    const callee = node.callee as { name?: string } | undefined;
    const bare = node.type === 'NewExpression' && (node.arguments as unknown[]).length === 0;
    if (callee?.name === 'Date' && (bare || node.type === 'CallExpression')) {
      add(node.start, 'reads the clock');
    }
  });
  return found;
}

type Edge = { target: string; line: number };

/** Files that import each other cannot be read, tested or moved one at a time. */
function findCycles(edges: ReadonlyMap<string, readonly Edge[]>): Finding[] {
  const found: Finding[] = [];
  const done = new Set<string>();
  const trail: string[] = [];
  const visit = (path: string): void => {
    trail.push(path);
    for (const { target, line } of edges.get(path) ?? []) {
      const start = trail.indexOf(target);
      const cycle = [...trail.slice(start), target].join(' → ');
      if (start >= 0) found.push({ path, line, text: `closes a cycle of imports: ${cycle}` });
      else if (!done.has(target)) visit(target);
    }
    trail.pop();
    done.add(path);
  };
  for (const path of edges.keys()) if (!done.has(path)) visit(path);
  return found;
}

const { values: options } = parseArgs({ options: { root: { type: 'string' } } });
const root = resolve(options.root ?? join(import.meta.dirname, '..'));
const findings: Finding[] = [];
const edges = new Map<string, Edge[]>();

for (const path of listFiles(root).filter((path) => path.endsWith('.ts'))) {
  const layer = LAYERS.find((layer) => folderFor(layer, path) !== undefined);
  if (layer === undefined) {
    if (path.startsWith('src/')) findings.push({ path, text: 'is in no layer of the table' });
    continue;
  }
  const source = readSource(root, path);
  const imports = listImports(source);
  for (const one of imports) {
    const text = checkImport(path, layer, one);
    if (text !== undefined) findings.push({ path, line: one.line, text });
  }
  const own = imports.filter(({ specifier }) => specifier.startsWith('.'));
  edges.set(
    path,
    own.map(({ specifier, line }) => ({
      target: posix.join(posix.dirname(path), specifier),
      line,
    })),
  );
  if (/^src\/daemons\/[^/]+\/(.*[-/])?rules(\.ts|\/)/.test(path) && !isTest(path)) {
    findings.push(...checkRules(source));
  }
}
findings.push(...findCycles(edges));
report('layers', findings);
