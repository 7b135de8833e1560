// Compares ids.yaml with the tests: every id has a status, and every id marked done names tests
// that exist and cite it. Whether it works is up to those tests.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseDocument } from 'yaml';
import { listFiles, readSource, walkSyntax } from '../../tools/source.ts';

/** The number of ids per letter. */
const COUNTS = { K: 123, C: 180, B: 67, R: 473 } as const;
type Letter = keyof typeof COUNTS;

const STATUSES = ['done', 'later', 'wont'] as const;
type Status = (typeof STATUSES)[number];
type Row = { status?: unknown; tests?: unknown; reason?: unknown };

export type RequirementsReport = { wrong: string[]; counts: Record<Status, number> };

/** Returns the ids of `R7` or `R7-R9`; undefined if it is neither or exceeds the last id. */
export function expandIds(text: string): string[] | undefined {
  const [, letter, first, last] = /^([KCBR])(\d+)(?:-\1(\d+))?$/.exec(text) ?? [];
  if (letter === undefined) return undefined;
  const from = Number(first);
  const to = Number(last ?? first);
  if (from < 1 || to < from || to > COUNTS[letter as Letter]) return undefined;
  return Array.from({ length: to - from + 1 }, (_, i) => `${letter}${from + i}`);
}

/** `[R126]`, `[R126, K3]` and `[R126-R130]` in a test's name. */
function citesIn(name: string): string[] {
  const lists = name.matchAll(/\[((?:[KCBR]\d+)(?:[-,\s]+[KCBR]\d+)*)\]/g);
  return [...lists].flatMap(([, list]) =>
    list!.split(/[,\s]+/).flatMap((part) => expandIds(part) ?? [part]),
  );
}

const testWords = new Set(['test', 'it', 'describe', 'suite']);

/** Each test file → the ids that the names of its tests cite. */
export function readCites(root: string): Map<string, Set<string>> {
  const cites = new Map<string, Set<string>>();
  for (const path of listFiles(root).filter((file) => file.endsWith('.test.ts'))) {
    const ids = new Set<string>();
    walkSyntax(readSource(root, path), (node) => {
      if (node.type !== 'CallExpression') return;
      type Named = { name?: string; property?: { name?: string }; object?: { name?: string } };
      const callee = node.callee as Named;
      const words = [callee.name, callee.property?.name, callee.object?.name];
      if (!words.some((word) => word !== undefined && testWords.has(word))) return;
      const [first] = node.arguments as {
        value?: unknown;
        quasis?: { value: { raw: string } }[];
      }[];
      const name = first?.value ?? first?.quasis?.map(({ value }) => value.raw).join('…');
      if (typeof name === 'string') for (const id of citesIn(name)) ids.add(id);
    });
    cites.set(path, ids);
  }
  return cites;
}

function checkRow(id: string, row: Row, root: string, cites: Map<string, Set<string>>): string[] {
  const { status, tests, reason } = row;
  if (!STATUSES.includes(status as Status)) {
    return [`${id}: status is ${JSON.stringify(status)}, not one of ${STATUSES.join(', ')}`];
  }
  const unknown = Object.keys(row).filter((key) => !['status', 'tests', 'reason'].includes(key));
  if (unknown.length > 0) return [`${id}: unknown ${unknown.join(', ')}`];
  if (status === 'wont' && (typeof reason !== 'string' || reason.trim() === '')) {
    return [`${id}: is not to be done, and no reason says why`];
  }
  if (status !== 'done') return [];
  if (!Array.isArray(tests) || tests.length === 0) return [`${id}: is done, and names no test`];
  return tests.flatMap((test: unknown) => {
    const path = String(test);
    if (!existsSync(join(root, path))) return [`${id}: ${path} does not exist`];
    return cites.get(path)?.has(id) ? [] : [`${id}: no test in ${path} cites [${id}]`];
  });
}

export function checkRequirements(root: string): RequirementsReport {
  const text = readFileSync(join(root, 'test/requirements/ids.yaml'), 'utf8');
  const document = parseDocument(text, { uniqueKeys: true });
  const wrong = document.errors.map(({ message }) => `ids.yaml: ${message}`);
  const rows = Object.entries((document.toJS() ?? {}) as Record<string, Row>);
  const cites = readCites(root);
  const known = new Map<string, unknown>();
  // Ranges first, so that a row for one id overrides them.
  for (const [key, row] of rows.sort(([a], [b]) => +b.includes('-') - +a.includes('-'))) {
    const ids = expandIds(key);
    if (ids === undefined) wrong.push(`${key}: is not an id, nor a range of them`);
    for (const id of ids ?? []) known.set(id, row.status);
    wrong.push(...checkRow(key, row, root, cites));
    if (key.includes('-') && row.status === 'done') wrong.push(`${key}: say done id by id`);
  }
  for (const [letter, count] of Object.entries(COUNTS)) {
    for (const id of expandIds(`${letter}1-${letter}${count}`) ?? []) {
      if (!known.has(id)) wrong.push(`${id}: has no row`);
    }
  }
  for (const [path, ids] of cites) {
    for (const id of ids) if (!known.has(id)) wrong.push(`${path}: cites ${id}, which is no id`);
  }
  const statuses = [...known.values()];
  const count = (status: Status) => statuses.filter((known) => known === status).length;
  return { wrong, counts: { done: count('done'), later: count('later'), wont: count('wont') } };
}
