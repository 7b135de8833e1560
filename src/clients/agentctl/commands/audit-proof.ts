// agentctl audit prove, checkpoint, rotate-key: documents for people who do not take our word.
import type { ProofView } from '../../../wire/auditd-ai.ts';
import { Fault, fault } from '../../../wire/errors.ts';
import type { Session } from '../command.ts';
import type { Runtime } from '../runtime.ts';

/** Of an event by its id, or by its number: the first column of audit tail. */
export async function proofOf(runtime: Runtime, event: string): Promise<ProofView> {
  let id = event;
  if (/^\d{1,15}$/.test(event)) {
    const query = { after: Number(event) - 1, order: 'asc', limit: 1 } as const;
    const { events } = await runtime.ask('auditd-ai', 'events', { query });
    id = events[0]?.id ?? event;
  }
  return runtime.ask('auditd-ai', 'prove', { params: { id } }).catch((error: unknown) => {
    if (!(error instanceof Fault) || error.code !== 'not_found') throw error;
    throw fault('not_found', error.message, {
      hint: 'Use its number, the first column of agentctl audit tail, or its id (with --json).',
      cause: error,
    });
  });
}

export async function prove({ args, out, runtime }: Session): Promise<void> {
  const proof = await proofOf(runtime(), args.words[0]!);
  // For people too the document is the point: it goes to whoever shall check it.
  if (out.json) out.document({ proof });
  else out.line(JSON.stringify(proof, null, 2));
}

export async function checkpoint({ out, runtime }: Session): Promise<void> {
  const view = await runtime().ask('auditd-ai', 'checkpoint', {});
  if (out.json) return out.document({ checkpoint: view });
  out.write(view.note.endsWith('\n') ? view.note : `${view.note}\n`);
  out.note(`Keep it elsewhere; later: agentctl audit verify --from FILE. Key: ${view.vkey}`);
}

export async function rotateKey({ out, runtime }: Session): Promise<void> {
  const keys = await runtime().ask('auditd-ai', 'rotateKey', {});
  out.give({ keys }, () => [`Signs with  ${keys.vkey}`, `Before      ${keys.previous}`]);
}
