// Measures a policy decision with two hundred rules, for a new request and for a repeated one. The
// peer is Cedar alone, with the same rules parsed once before.
import type * as Cedar from '@cedar-policy/cedar-wasm/nodejs';
import { placeResource } from '../src/policy/entities.ts';
import type { Request } from '../src/policy/request.ts';
import type { Rule } from '../src/policy/rule.ts';
import { makeTestPolicy } from '../src/policy/testing/rights.ts';
import { type Benchmark, exactly, type Figure, quantile, seeRounds } from './figure.ts';

const RULES = 200;
const ROUNDS = 5;
const QUESTIONS = 400;
const WARM_UP = 400;

/** Site rules, all about the requested action; every `each`th has a condition. */
function siteRules(count: number, each: number): string {
  const read = 'action == Action::"file.read"';
  const rules = Array.from({ length: count }, (_, i) => {
    if (i % each === 0)
      return `forbid (principal, ${read}, resource) when { context.labels.contains("m${i}") };`;
    const inside = `resource in Path::"/srv/repos/r${i}`;
    if (i % 10 === 9)
      return `@ask("watched") forbid (principal is Agent, ${read}, ${inside}/secret");`;
    return `permit (principal == Agent::"coder", ${read}, ${inside}");`;
  });
  return rules.join('\n');
}

const requestFor = (path: string): Request => ({
  principal: 'agent:coder',
  action: 'file.read',
  resource: { type: 'Path', id: path },
  context: { path, tool: 'file.read', task_id: 't', root_task_id: 't', labels: ['tool'] },
});

function timeEach(questions: readonly Request[], answer: (request: Request) => unknown): number {
  const took: number[] = [];
  for (const request of questions) {
    const began = performance.now();
    answer(request);
    took.push(performance.now() - began);
  }
  return quantile(
    took.sort((a, b) => a - b),
    0.5,
  );
}

const policyWith = (site: string) => makeTestPolicy({ coder: {} }, { site: { '10.cedar': site } });

async function run(): Promise<Figure[]> {
  const rssBefore = process.memoryUsage().rss;
  const own = (await policyWith('').listRules('agent:coder')).length;
  const full = policyWith(siteRules(RULES - own, 5));
  const began = performance.now();
  await full.decide(requestFor('/srv/repos/r1/a'));
  const firstMs = performance.now() - began;
  const memory = (process.memoryUsage().rss - rssBefore) / 1024 ** 2;
  const hard = policyWith(siteRules(RULES - own, 1));
  await hard.warm();
  const alone = await cedarAlone(await full.listRules('agent:coder'));

  let made = 0;
  const fresh = (count: number): Request[] =>
    Array.from({ length: count }, () => {
      const n = made++;
      return requestFor(`/srv/repos/r${n % 150}/src/deep/file${n}.ts`);
    });
  for (const answer of [full.decideNow, hard.decideNow, alone]) timeEach(fresh(WARM_UP), answer);
  const cold: number[] = [];
  const again: number[] = [];
  const peer: number[] = [];
  const conditions: number[] = [];
  for (let i = 0; i < ROUNDS; i++) {
    const questions = fresh(QUESTIONS);
    cold.push(timeEach(questions, full.decideNow));
    again.push(timeEach(questions, full.decideNow) * 1_000);
    peer.push(timeEach(questions, alone));
    conditions.push(timeEach(questions, hard.decideNow));
  }
  return [
    {
      name: `decision over ${RULES} rules, never asked before, p50`,
      unit: 'ms',
      own: seeRounds(cold),
      peer: { name: 'Cedar alone, rules parsed before', ...seeRounds(peer) },
      ratio: seeRounds(cold.map((ms, i) => ms / peer[i]!)),
      bar: { of: 'value', max: 0.6 },
    },
    {
      name: `decision over ${RULES} rules, just asked, p50`,
      unit: 'µs',
      own: seeRounds(again),
      bar: { of: 'value', max: 50 },
    },
    {
      name: 'decision when all rules of the site have conditions, p50',
      unit: 'ms',
      own: seeRounds(conditions),
    },
    { name: 'first decision, Cedar loaded before', unit: 'ms', own: exactly(firstMs) },
    { name: 'memory that Cedar and one decision take', unit: 'MiB', own: exactly(memory) },
  ];
}

/** Evaluates every rule, without preselection. */
async function cedarAlone(rules: readonly Rule[]): Promise<(request: Request) => void> {
  const { default: cedar } = (await import('@cedar-policy/cedar-wasm/nodejs')) as unknown as {
    default: typeof Cedar;
  };
  if (rules.length !== RULES) throw new Error(`there are ${rules.length} rules`);
  const staticPolicies = Object.fromEntries(rules.map(({ id, text }) => [id, text]));
  cedar.preparsePolicySet('alone', { staticPolicies });
  return (request) => {
    const place = placeResource(request.resource);
    if (!place.ok) throw new Error(place.problem);
    cedar.statefulIsAuthorized({
      principal: { type: 'Agent', id: 'coder' },
      action: { type: 'Action', id: request.action },
      resource: place.placed.uid,
      context: request.context as never,
      preparsedPolicySetId: 'alone',
      validateRequest: false,
      entities: [{ ...place.placed, attrs: {} }],
    });
  };
}

export const policy: Benchmark = {
  name: 'policy',
  about: 'a decision over two hundred rules, cold and just asked',
  run,
};
