// Checks style rules: names, sizes, headers, forbidden text, and the parts of a daemon's folder.
// Formatting and lint are biome's, imports are check-layers'.
//   tools/tidy.ts [--root DIR]
import { readFileSync, statSync } from 'node:fs';
import { extname, join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import {
  type Finding,
  listFiles,
  memberName,
  readSource,
  report,
  type Source,
  walkSyntax,
} from './source.ts';
import { checkCommentOpenings } from './tidy/comment-openings.ts';
import { checkLiteralSpreads } from './tidy/literal-spreads.ts';
import { checkMessageTests } from './tidy/message-tests.ts';
import { checkTypeNames, listExportedTypes, type TypeName } from './tidy/type-names.ts';

const columnsMax = 100;
/** One string may exceed it: messages, statements and test titles are searched for as a whole. */
const columnsWithStringMax = 180;
const lengthWarn = 400;
const lengthMax = 600;

const codeEndings = new Set(['.ts', '.tsx', '.sh', '.c', '.h']);
const binaryEndings = new Set(['.png', '.jpg', '.gif', '.ico', '.gz', '.sqlite', '.woff2']);

const knownNames = new Set([
  'README.md',
  'LICENSE',
  'NOTICE',
  'Makefile',
  'CHANGELOG.md',
  'HALT',
  'SKILL.md',
]);
const kebabCase = /^\.?[a-z0-9]+(?:-[a-z0-9]+)*(?:\.[a-z0-9]+(?:-[a-z0-9]+)*)*$/;
/** Names without a subject: they attract everything. */
const emptyNames = new Set(['util', 'utils', 'helper', 'helpers', 'common', 'core', 'shared']);

/** The only files that read the environment; others get values passed in. */
const envPlaces =
  /^(src\/platform\/config[^/]*\.ts$|src\/entry\/|src\/clients\/|tools\/|demo\/|test\/|bench\/)/;

/**
 * Text that no file of the project may contain. Written so that this file does not match itself.
 */
const FORBIDDEN: readonly { pattern: RegExp; why: string }[] = [
  { pattern: /\b(?:TO[D]O|FIX[M]E)\b/, why: 'unfinished work is finished, or listed as left out' },
  { pattern: /(?<![\w.~}-])\/(?:work|root|farm)\//, why: 'a path of one machine' },
  { pattern: /\bregistry\.[a-z0-9-]+\.[a-z]{2,}\b/, why: 'the host of a package registry' },
];

/**
 * A daemon's folder: each part is `name.ts`, or a folder `name/` once it has grown. A service that
 * would only pass calls on is left out.
 */
const DAEMON_PARTS = {
  required: ['daemon', 'config', 'api'],
  optional: ['main', 'service', 'rules', 'store', 'adapters'],
} as const;

function checkName(path: string): string[] {
  const wrong: string[] = [];
  const parts = path.split('/');
  for (const part of parts) {
    if (emptyNames.has(part.split('.')[0]!)) wrong.push(`'${part}' says nothing: name its subject`);
  }
  const odd = parts.find((part) => !kebabCase.test(part) && !knownNames.has(part));
  if (odd !== undefined) wrong.push(`'${odd}' is not kebab-case`);
  return wrong;
}

/** Without its longest string the line must fit; a line inside a long template is one string. */
function allowedColumns(line: string): number {
  const strings = line.match(/'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`(?:[^`\\]|\\.)*`/g) ?? [];
  const longest = Math.max(0, ...strings.map((text) => [...text].length));
  const isInTemplate = /^[A-Z$ ]/.test(line.trimStart()) && strings.length === 0;
  const isComment = /^\s*(\/\/|\*|\/\*)/.test(line);
  if (isComment) return columnsMax;
  return [...line].length - longest <= columnsMax || isInTemplate
    ? columnsWithStringMax
    : columnsMax;
}

function checkText(path: string, text: string): Finding[] {
  const found: Finding[] = [];
  const isCode = codeEndings.has(extname(path));
  const lines = text.split('\n');
  lines.forEach((line, i) => {
    const at = { path, line: i + 1 };
    for (const { pattern, why } of FORBIDDEN) {
      const match = pattern.exec(line);
      if (match !== null) found.push({ ...at, text: `'${match[0]}': ${why}` });
    }
    const width = [...line].length;
    if (isCode && width > allowedColumns(line) && !/https?:\/\//.test(line)) {
      found.push({ ...at, text: `${width} columns, at most ${columnsMax}` });
    }
  });
  if (isCode) found.push(...checkShape(path, lines), ...checkCommentOpenings(path, lines));
  return found;
}

function checkShape(path: string, lines: readonly string[]): Finding[] {
  const found: Finding[] = [];
  const first = lines[0]!.startsWith('#!') ? lines[1] : lines[0];
  if (!/^(\/\/|\/\*|#) ?\S/.test(first ?? '')) {
    const text = 'starts without a comment that says what it owns and what it leaves to others';
    found.push({ path, line: 1, text });
  }
  const length = lines.length - 1;
  const text = `${length} lines: split it into a folder of the same name`;
  if (length > lengthMax) found.push({ path, text: `${text} (at most ${lengthMax})` });
  else if (length > lengthWarn) found.push({ path, text, warning: true });
  return found;
}

function checkSyntax(path: string, source: Source): Finding[] {
  const found = [...checkMessageTests(path, source), ...checkLiteralSpreads(path, source)];
  const readsEnv =
    /\benv\b/.test(source.text) && !envPlaces.test(path) && !path.endsWith('.test.ts');
  if (!readsEnv && !/\bany\b/.test(source.text)) return found;
  walkSyntax(source, (node) => {
    const line = source.lineAt(node.start);
    if (node.type === 'TSAnyKeyword') found.push({ path, line, text: "the type 'any'" });
    const fromProcess =
      node.type === 'ImportDeclaration' &&
      (node.source as { value?: string }).value === 'node:process';
    if (readsEnv && (memberName(node) === 'process.env' || fromProcess)) {
      const text = 'reads the environment: only configuration, entries, clients and tools do';
      found.push({ path, line, text });
    }
  });
  return found;
}

function checkDaemons(paths: readonly string[]): Finding[] {
  const daemons = new Map<string, Set<string>>();
  for (const path of paths) {
    const [, name, inside] = /^src\/daemons\/([^/]+)\/([^/]+)/.exec(path) ?? [];
    if (name === undefined || inside === undefined) continue;
    daemons.set(name, (daemons.get(name) ?? new Set()).add(inside));
  }
  return [...daemons].flatMap(([name, inside]) => {
    const has = (part: string) => inside.has(`${part}.ts`) || inside.has(part);
    const missing = DAEMON_PARTS.required.filter((part) => !has(part)).map((part) => `${part}.ts`);
    if (!inside.has('README.md')) missing.unshift('README.md');
    const twice = [...DAEMON_PARTS.required, ...DAEMON_PARTS.optional].filter(
      (part) => inside.has(`${part}.ts`) && inside.has(part),
    );
    const path = `src/daemons/${name}`;
    return [
      ...missing.map((part) => ({ path, text: `has no ${part}; every daemon has one` })),
      ...twice.map((part) => ({ path, text: `has ${part}.ts and ${part}/: one of them` })),
    ];
  });
}

const { values: options } = parseArgs({ options: { root: { type: 'string' } } });
const root = resolve(options.root ?? join(import.meta.dirname, '..'));
const paths = listFiles(root);
const findings: Finding[] = [];
const types: TypeName[] = [];

for (const path of paths) {
  findings.push(...checkName(path).map((text) => ({ path, text })));
  if (binaryEndings.has(extname(path)) || !statSync(join(root, path)).isFile()) continue;
  const text = readFileSync(join(root, path), 'utf8');
  findings.push(...checkText(path, text));
  if (extname(path) !== '.ts') continue;
  const source = readSource(root, path);
  findings.push(...checkSyntax(path, source));
  types.push(...listExportedTypes(path, source));
}
findings.push(...checkDaemons(paths), ...checkTypeNames(types));
report('tidy', findings);
