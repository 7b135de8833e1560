// Measures how often recall finds the turns of long conversations that answer a question: with and
// without each part of the ranking, and with weights chosen on other conversations.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { addToIndex, INDEX_TABLES, search, WEIGHTS } from '../src/daemons/memoryd/index/index.ts';
import { openSqlite, type SqliteDatabase } from '../src/platform/sql/sqlite.ts';
import { type Benchmark, exactly, type Figure, quantile } from './figure.ts';
import { type AskedQuestion, type Conversation, readLocomo } from './locomo.ts';

const DEPTHS = [5, 10, 20];
const BAR_DEPTH = 10;
/** In per cent. */
const BARS = { apart: { any: 85, all: 73 }, together: { any: 82, all: 70 } };
const CATEGORIES: Readonly<Record<number, string>> = {
  1: 'several turns',
  2: 'time',
  3: 'inference',
  4: 'one turn',
};
/** Factors that each weight is tried with when the weights are chosen anew. */
const TRIED = [0.5, 2];

type Weights = typeof WEIGHTS;
type Asked = AskedQuestion & { conversation: number; scope: string };
type Site = { db: SqliteDatabase; asked: Asked[]; refs: ReadonlyMap<number, string> };
type Answered = { asked: Asked; found: string[]; tookMs: number };

const refOf = (conversation: number, ref: string): string => `${conversation} ${ref}`;

async function openSite(
  file: string,
  conversations: readonly Conversation[],
  scopeOf: (conversation: number) => string,
): Promise<Site> {
  const db = openSqlite({ file, migrations: [INDEX_TABLES] });
  const refs = new Map<number, string>();
  for (const [i, { turns }] of conversations.entries()) {
    const records = turns.map(({ ref, thread, ...turn }) => {
      const number = refs.size + 1;
      refs.set(number, refOf(i, ref));
      return { ...turn, number, scope: scopeOf(i), thread: `${i} ${thread}` };
    });
    await db.write((sql) => addToIndex(sql, records));
  }
  const asked = conversations.flatMap(({ questions }, conversation) =>
    questions.map((one) => ({ ...one, conversation, scope: scopeOf(conversation) })),
  );
  return { db, asked, refs };
}

async function ask(
  { db, asked, refs }: Site,
  weights: Partial<Weights> = {},
  isWanted: (asked: Asked) => boolean = () => true,
): Promise<Answered[]> {
  const answered: Answered[] = [];
  for (const one of asked.filter(isWanted)) {
    const began = performance.now();
    const hits = await db.read((sql) =>
      search(sql, {
        scopes: [one.scope],
        query: one.text,
        limit: DEPTHS.at(-1)!,
        nowMs: Date.now(),
        weights,
      }),
    );
    const tookMs = performance.now() - began;
    answered.push({ asked: one, found: hits.map(({ number }) => refs.get(number)!), tookMs });
  }
  return answered;
}

type Share = { any: number; all: number };

/** In per cent: the questions of which any, and all, evidence is among the first hits. */
function shareOf(answered: readonly Answered[], depth: number): Share {
  let any = 0;
  let all = 0;
  for (const { asked, found } of answered) {
    const first = new Set(found.slice(0, depth));
    const hits = asked.evidence.filter((ref) => first.has(refOf(asked.conversation, ref))).length;
    if (hits > 0) any++;
    if (hits === asked.evidence.length) all++;
  }
  return { any: (100 * any) / answered.length, all: (100 * all) / answered.length };
}

function figuresOf(name: string, { any, all }: Share, bars?: Share): Figure[] {
  const bar = (min: number | undefined) =>
    min === undefined ? {} : { bar: { of: 'value' as const, min } };
  return [
    { name: `${name}, any`, unit: '%', own: exactly(any), ...bar(bars?.any) },
    { name: `${name}, all`, unit: '%', own: exactly(all), ...bar(bars?.all) },
  ];
}

async function measureSite(name: string, site: Site, bars: Share): Promise<Figure[]> {
  await ask(site);
  const answered = await ask(site);
  const figures = DEPTHS.flatMap((depth) =>
    figuresOf(
      `${name} @${depth}`,
      shareOf(answered, depth),
      depth === BAR_DEPTH ? bars : undefined,
    ),
  );
  const took = answered.map(({ tookMs }) => tookMs).sort((a, b) => a - b);
  for (const share of [0.5, 0.95])
    figures.push({
      name: `${name}, one question, p${share * 100}`,
      unit: 'ms',
      own: exactly(quantile(took, share)),
    });
  return figures;
}

/** By what a question asks for. */
async function measureCategories(site: Site): Promise<Figure[]> {
  const answered = await ask(site);
  return Object.entries(CATEGORIES).flatMap(([category, about]) => {
    const ofCategory = answered.filter(({ asked }) => asked.category === Number(category));
    return DEPTHS.flatMap((depth) => figuresOf(`${about} @${depth}`, shareOf(ofCategory, depth)));
  });
}

const NONE = Object.fromEntries(Object.keys(WEIGHTS).map((name) => [name, 0])) as Weights;
const PARTS: Readonly<Record<string, (keyof Weights)[]>> = {
  'the thesaurus': ['related'],
  'the question asked before': ['questionBefore'],
  'other neighbours': ['before', 'after', 'secondBefore', 'secondAfter'],
  'the conversation': ['conversation'],
  'the speaker': ['speaker'],
  'times told': ['tells_time'],
  dates: ['date'],
  'questions as answers': ['question'],
  proximity: ['proximity'],
};

async function measureParts(site: Site): Promise<Figure[]> {
  const measure = async (name: string, weights: Partial<Weights>) =>
    figuresOf(`${name} @${BAR_DEPTH}`, shareOf(await ask(site, weights), BAR_DEPTH));
  const figures = await measure('words only', NONE);
  for (const [name, parts] of Object.entries(PARTS)) {
    const without = Object.fromEntries(parts.map((part) => [part, 0]));
    figures.push(...(await measure(`without ${name}`, without)));
  }
  return figures;
}

/** Chooses weights on all conversations but one, and asks the questions of that one. */
async function measureLeftOut(site: Site, conversations: number): Promise<Figure[]> {
  const answered: Answered[] = [];
  for (let left = 0; left < conversations; left++) {
    const weights = await choose(site, ({ conversation }) => conversation !== left);
    answered.push(...(await ask(site, weights, ({ conversation }) => conversation === left)));
  }
  return figuresOf(
    `weights chosen on the other conversations @${BAR_DEPTH}`,
    shareOf(answered, BAR_DEPTH),
  );
}

async function choose(site: Site, isWanted: (asked: Asked) => boolean): Promise<Weights> {
  const rate = async (weights: Weights): Promise<number> => {
    const answered = await ask(site, weights, isWanted);
    return DEPTHS.reduce((sum, depth) => {
      const { any, all } = shareOf(answered, depth);
      return sum + any + all;
    }, 0);
  };
  let chosen = { ...WEIGHTS };
  let best = await rate(chosen);
  for (const name of Object.keys(WEIGHTS) as (keyof Weights)[])
    for (const factor of TRIED) {
      const tried = { ...chosen, [name]: WEIGHTS[name] * factor };
      const rated = await rate(tried);
      if (rated <= best) continue;
      best = rated;
      chosen = tried;
    }
  return chosen;
}

async function run(): Promise<Figure[]> {
  const conversations = readLocomo();
  if (conversations === undefined) return [];
  const dir = mkdtempSync(join(tmpdir(), 'agentd-bench-'));
  try {
    const apart = await openSite(join(dir, 'apart.sqlite'), conversations, (i) => `project:c${i}`);
    const together = await openSite(join(dir, 'together.sqlite'), conversations, () => 'team');
    const figures = [
      ...(await measureSite('a scope per conversation', apart, BARS.apart)),
      ...(await measureSite('all in one scope', together, BARS.together)),
      ...(await measureCategories(apart)),
      ...(await measureParts(apart)),
      ...(await measureLeftOut(apart, conversations.length)),
    ];
    await Promise.all([apart.db.close(), together.db.close()]);
    return figures;
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

export const memoryQuality: Benchmark = {
  name: 'memory-quality',
  about: 'recall of the turns that answer questions about long conversations',
  run,
};
