// agentctl audit prove, checkpoint, rotate-key: documents for people who do not take our word.
import type { Session } from '../command.ts';

export async function prove({ args, out, runtime }: Session): Promise<void> {
  const proof = await runtime().ask('auditd-ai', 'prove', { params: { id: args.words[0]! } });
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
