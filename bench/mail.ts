// Measures mail that comes in: 1,000 mails by SMTP until each is a synced file in a Maildir and
// recorded, beside Postfix doing the same on the same disk.
import { mkdirSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { writePersonKey } from '../src/daemons/approvald/testing/person-key.ts';
import { eventually, freshDir, startRuntime } from '../test/support/runtime.ts';
import { startProcess } from './children.ts';
import { type Benchmark, exactly, type Figure, type Measured, seeRounds } from './figure.ts';
import { freePort } from './peers.ts';
import { findPostfixObstacle, startPostfix } from './postfix.ts';
import type { MailLoadOrder, MailLoadResult } from './processes/mail-load.ts';

const MAILS = 1_000;
const CONNECTIONS = 8;
const ROUNDS = 3;
const WARM_UP = 100;
const WAIT_MS = 120_000;
const PERSON = 'ann';

type Receiver = { order: Pick<MailLoadOrder, 'port' | 'to' | 'auth'>; maildir: string };
type Send = (order: MailLoadOrder) => Promise<MailLoadResult>;

const countIn = (maildir: string): number => {
  try {
    return readdirSync(join(maildir, 'new')).length;
  } catch {
    return 0;
  }
};

/** Mails per second, from the first until the last is in the mailbox. */
async function measure(
  { order, maildir }: Receiver,
  send: Send,
  { mails, name }: { mails: number; name: string },
): Promise<{ rate: number; lost: number }> {
  const before = countIn(maildir);
  const began = performance.now();
  const { refused } = await send({ ...order, mails, name, connections: CONNECTIONS });
  const all = before + mails - refused;
  const isThere = async () => countIn(maildir) >= all || undefined;
  // Mails that never come are counted as lost.
  await eventually('all mails in the mailbox', isThere, WAIT_MS).catch(() => undefined);
  const ms = performance.now() - began;
  return { rate: (mails * 1_000) / ms, lost: before + mails - countIn(maildir) };
}

async function compareReceivers(own: Receiver, peer: Receiver | undefined, send: Send) {
  const rates: [number[], number[]] = [[], []];
  let lost = 0;
  for (const [who, receiver] of [own, peer].entries())
    if (receiver !== undefined)
      await measure(receiver, send, { mails: WARM_UP, name: `warm-${who}` });
  for (let round = 0; round < ROUNDS; round++) {
    const order = { mails: MAILS, name: `round-${round}` };
    const ours = await measure(own, send, order);
    lost += ours.lost;
    rates[0].push(ours.rate);
    if (peer !== undefined) rates[1].push((await measure(peer, send, order)).rate);
  }
  return { rates, lost };
}

async function run(): Promise<Figure[]> {
  const base = freshDir();
  const stateDir = join(base, 'state');
  mkdirSync(stateDir, { recursive: true, mode: 0o700 });
  writePersonKey(stateDir, PERSON);
  const port = await freePort();
  const runtime = await startRuntime({
    base,
    config: JSON.stringify({ maild: { smtp_port: port } }),
  });
  const load = await startProcess(new URL('./processes/mail-load.ts', import.meta.url));
  const send: Send = (order) => load.ask(order) as Promise<MailLoadResult>;
  const obstacle = findPostfixObstacle();
  if (obstacle !== undefined) console.log(`\nbench: left out: Postfix, because ${obstacle}`);
  const postfix = obstacle === undefined ? await startPostfix('box@bench.test') : undefined;
  try {
    const own: Receiver = {
      order: { port, to: `${PERSON}@localhost`, auth: [PERSON, PERSON.repeat(32)] },
      maildir: join(stateDir, 'mail', PERSON),
    };
    const peer: Receiver | undefined = postfix && {
      order: { port: postfix.port, to: 'box@bench.test' },
      maildir: postfix.maildir,
    };
    const { rates, lost } = await compareReceivers(own, peer, send);
    const ratio = rates[0].map((rate, round) => rate / rates[1][round]!);
    const beside: { peer: Measured & { name: string }; ratio: Measured } | undefined = postfix && {
      peer: { name: postfix.name, ...seeRounds(rates[1]) },
      ratio: seeRounds(ratio),
    };
    return [
      {
        name: `${MAILS} mails by SMTP into a Maildir, synced`,
        unit: '/s',
        own: seeRounds(rates[0]),
        ...beside,
        bar: { of: 'value', min: 100 },
      },
      { name: '… of these lost', unit: '', own: exactly(lost), bar: { of: 'value', max: 0 } },
    ];
  } finally {
    await postfix?.stop();
    await load.stop();
    await runtime.remove();
    rmSync(base, { recursive: true, force: true });
  }
}

export const mail: Benchmark = {
  name: 'mail',
  about: 'mail that comes in, until it is in a mailbox',
  run,
};
