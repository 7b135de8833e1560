// toold sends approvald the whole chain of a call: what it implies, and the calls requested in the
// same step.
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { publishPolicy as publish } from '../../../policy/testing/publish.ts';
import { CHAIN_LINKS_MAX, type ChainLink } from '../../../wire/approvald.ts';
import { BASE } from '../testing/declared-tools.ts';
import {
  hostToold,
  makeWorld,
  type TooldTestHost,
  type TooldTestRun,
  type TooldWorld,
} from '../testing/host.ts';
import { worstLinks } from './chain.ts';

const TOOLS = [
  'test.echo',
  'test.count_effect',
  'task.delegate',
  'task.finish',
  'http.fetch',
  'shell.exec',
  'file.read',
  'file.delete',
  'delete.recursive',
];
const required = ['test.echo', 'task.delegate', 'shell.exec'];
const allow = [...TOOLS, 'test.tools', 'file.write_workspace'];
const agents = {
  coder: { tools: { allow }, approvals: { required } },
  connected: {
    tools: { allow },
    approvals: { required },
    network: { mode: 'restricted', allow: ['good.test'] },
  },
  tester: { tools: { allow: ['tests.run', 'file.read'] } },
  cleaner: { tools: { allow: ['delete.recursive', 'file.read'] } },
};

let world: TooldWorld;
let host: TooldTestHost;
let run: TooldTestRun;
beforeEach(async () => {
  world = makeWorld();
  publish(join(world.dir, 'state'), { agents });
  host = await hostToold(world);
  run = await host.admit('one', { tools: TOOLS });
});
afterEach(async () => {
  await host.stop();
  world.remove();
});

type Sibling = { call_id: string; tool: string; arguments?: object };
/** Makes the call and returns the chain that approvald received. */
async function chainOf(n: number, tool: string, args: object, beside: Sibling[] = [], by = run) {
  const answer = await by.ask(n, tool, args, beside.length === 0 ? {} : { beside });
  assert.equal(answer.status, 'waiting', JSON.stringify(answer));
  return world.approvald.approvalOf(by.callId(n))!.ask.chain as ChainLink[];
}
const brief = (chain: ChainLink[]) =>
  chain.map(({ part, class: word, risk, reversibility }) =>
    [part, word, risk, reversibility].join(' '),
  );
const echo = { text: 'a' };

describe('a chain', () => {
  it('keeps its worst links when it is too long', () => {
    const link = (n: number, worst: Partial<ChainLink> = {}): ChainLink => ({
      part: 'beside',
      class: 'file.read',
      what: `file.read ${n}`,
      risk: 'low',
      reversibility: 'read-only',
      ...worst,
    });
    const many = Array.from({ length: CHAIN_LINKS_MAX + 50 }, (_, n) => link(n));
    const worst = link(9_999, { risk: 'high', reversibility: 'irreversible' });
    const kept = worstLinks([...many, worst]);
    assert.equal(kept.length, CHAIN_LINKS_MAX);
    assert.deepEqual(kept[0], worst);
    const few = [link(1), worst, link(1)];
    assert.deepEqual(worstLinks(few), [link(1), worst]);
  });

  it('is empty for a single call that implies nothing', async () => {
    assert.deepEqual(await chainOf(1, 'test.echo', echo), []);
  });

  it('has the other calls of the step, by their risk', async () => {
    const other = (n: number, tool: string, args?: object): Sibling => ({
      call_id: run.callId(n),
      tool,
      ...(args === undefined ? {} : { arguments: args }),
    });
    const chain = await chainOf(1, 'test.echo', echo, [
      other(1, 'test.echo', echo),
      other(2, 'delete.recursive', { path: 'src' }),
      other(3, 'http.fetch', { url: 'https://a.test/' }),
      other(4, 'http.fetch', { url: 'https://a.test/', method: 'POST' }),
      other(5, 'http.fetch'),
      other(6, 'task.finish', { result: 'done' }),
      other(7, 'prod.deploy', {}),
      other(8, 'test.echo', echo),
    ]);
    assert.deepEqual(brief(chain), [
      'beside delete.recursive high irreversible',
      'beside http.fetch medium read-only',
      'beside http.fetch medium externally-reversible',
      'beside http.fetch medium externally-reversible',
    ]);
    assert.equal(chain[0]?.what, 'delete.recursive {"path":"src"}');
  });

  it('has the calls that toold knows to be open, whatever the runner claims', async () => {
    await chainOf(1, 'task.delegate', { agent: 'cleaner', goal: 'g' });
    const chain = await chainOf(2, 'test.echo', echo);
    assert.ok(
      brief(chain).includes('beside delete.recursive high irreversible'),
      `${brief(chain)}`,
    );
    const elsewhere = await host.admit('two', { tools: TOOLS });
    assert.deepEqual(await chainOf(1, 'test.echo', echo, [], elsewhere), [], 'another run');
  });

  it("describes them from the record, and not from the runner's claim", async () => {
    await chainOf(1, 'task.delegate', { agent: 'cleaner', goal: 'g' });
    for (const [n, tool] of [
      [2, 'file.read'],
      [3, 'task.finish'],
    ] as const) {
      const lie = [{ call_id: run.callId(1), tool, arguments: { path: 'a' } }];
      const chain = await chainOf(n, 'test.echo', { text: tool }, lie);
      const grim = 'beside delete.recursive high irreversible';
      assert.ok(brief(chain).includes(grim), `${brief(chain)}`);
    }
  });

  it('treats work delegated to an unknown agent as the worst', async () => {
    const unsaid = [{ call_id: run.callId(7), tool: 'task.delegate' }];
    const worst = 'beside task.delegate high irreversible';
    assert.ok(brief(await chainOf(1, 'test.echo', echo, unsaid)).includes(worst));
    const long = await host.admit('seven', { tools: TOOLS });
    for (const [n, chars] of [
      [1, 20_000],
      [3, 65_536],
    ] as const) {
      await chainOf(n, 'task.delegate', { agent: 'cleaner', goal: 'g'.repeat(chars) }, [], long);
      const chain = await chainOf(n + 1, 'test.echo', { text: `${n}` }, [], long);
      assert.ok(brief(chain).includes(worst), `${brief(chain)}`);
    }
    const short = await host.admit('eight', { tools: TOOLS });
    await chainOf(1, 'task.delegate', { agent: 'tester', goal: 'g'.repeat(10_000) }, [], short);
    const mild = await chainOf(2, 'test.echo', echo, [], short);
    assert.ok(!brief(mild).includes(worst), 'control: the agent is known');
  });

  it('has the tools a delegate would get, less what the delegation leaves out', async () => {
    const to = (agent: string, more: object = {}) => ({ agent, goal: 'g', ...more });
    const mild = await chainOf(1, 'task.delegate', to('tester'));
    assert.deepEqual(brief(mild), [
      'brings file.read low read-only',
      'brings file.read low read-only',
      'brings file.read low read-only',
      'brings tests.run medium reversible',
    ]);
    const grim = await host.admit('three', { tools: TOOLS });
    const all = await chainOf(1, 'task.delegate', to('cleaner'), [], grim);
    assert.ok(brief(all).includes('brings delete.recursive high irreversible'));
    const less = { delegation: { deny: ['delete.recursive'] } };
    const kept = await host.admit('four', { tools: TOOLS });
    const some = await chainOf(1, 'task.delegate', to('cleaner', less), [], kept);
    assert.ok(!brief(some).some((link) => /delete/.test(link)));
  });

  it('has the hosts that a command could send to', async () => {
    const sh = { command: 'true' };
    assert.deepEqual(await chainOf(1, 'shell.exec', sh), []);
    const connected = await host.admit('five', { tools: TOOLS, agent: 'connected' });
    const chain = await chainOf(1, 'shell.exec', sh, [], connected);
    assert.deepEqual(brief(chain), ['brings network.external medium externally-reversible']);
    assert.match(chain[0]!.what, /shell\.exec can send to good\.test:443/);
  });

  it('has all hosts for a tool outside the box, whatever it declares', async () => {
    const tools = join(world.dir, 'state', 'tools');
    mkdirSync(tools, { recursive: true });
    const declared = `${BASE}argv: [/usr/bin/notify]
place: host
read: [/usr]
network: [other.test]
approval: required
`;
    writeFileSync(join(tools, 'x.yaml'), declared.replace('service.restart', 'site.notify'));
    const allowing = { ...agents.connected, tools: { allow: [...allow, 'site.notify'] } };
    const network = { mode: 'restricted', allow: ['good.test', 'other.test'] };
    const more = { ...agents, connected: { ...allowing, network } };
    await host.stop();
    publish(join(world.dir, 'state'), { version: 2, agents: more });
    host = await hostToold(world);
    const given = { tools: [...TOOLS, 'site.notify'], agent: 'connected' };
    const connected = await host.admit('six', given);
    const chain = await chainOf(1, 'site.notify', {}, [], connected);
    assert.match(chain[0]!.what, /site\.notify can send to .*good\.test:443/);
  });

  it('shows the other calls so that they cannot imitate anything else', async () => {
    const key = `\u202e${'x'.repeat(1_000)}`;
    const beside = [{ call_id: run.callId(2), tool: 'test.count_effect', arguments: { key } }];
    const [link] = await chainOf(1, 'test.echo', echo, beside);
    assert.ok(link!.what.length <= 500);
    assert.doesNotMatch(link!.what, /\u202e/);
  });
});
