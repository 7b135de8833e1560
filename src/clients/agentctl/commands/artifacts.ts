// agentctl artifact list and get.
import { writeFileSync } from 'node:fs';
import { fault } from '../../../wire/errors.ts';
import type { Session } from '../command.ts';
import { writeOut } from '../out.ts';
import { formatRelative, formatSize } from '../show/amounts.ts';
import { replaceControls } from '../show/plain.ts';
import { renderTable } from '../show/table.ts';

const HEADERS = [
  { title: 'ID', minWidth: 'distinct' },
  { title: 'NAME', minWidth: 12 },
  { title: 'TYPE', minWidth: 4 },
  { title: 'SIZE', align: 'right' },
  { title: 'BY', minWidth: 6 },
  { title: 'STORED' },
] as const;

type ArtifactQuery = { task_id?: string | undefined; context_id?: string | undefined };

export const list = (session: Session): Promise<void> =>
  printArtifacts(session, {
    task_id: session.args.text('task'),
    context_id: session.args.text('context'),
  });

/** Newest first. */
export async function printArtifacts(
  { args, out, runtime }: Session,
  where: ArtifactQuery = {},
): Promise<void> {
  const query = { ...where, cursor: args.text('cursor'), limit: args.number('limit') ?? 50 };
  const answer = await runtime().call('agentd', 'listArtifacts', { query });
  out.print(answer, () => {
    if (answer.artifacts.length === 0) return ['No artifacts.'];
    const now = Date.now();
    const rows = answer.artifacts.map((one) => [
      one.id,
      one.name,
      one.mime_type,
      formatSize(one.size_bytes),
      one.created_by,
      formatRelative(one.created_at, now),
    ]);
    const more = answer.cursor === null ? [] : [`More: --cursor ${answer.cursor}`];
    return [...renderTable(HEADERS, rows, out), ...more];
  });
}

export async function get({ args, out, runtime }: Session): Promise<void> {
  const id = args.positionals[0]!.replace(/^artifact:\/\//, '');
  const answer = await runtime().call('agentd', 'getArtifact', { params: { id }, query: {} });
  const { artifact, text, base64 } = answer;
  const file = args.text('output');
  if (file !== undefined) {
    writeContent(file, text ?? Buffer.from(base64 ?? '', 'base64'));
    return out.print({ artifact, file }, () => [
      `${formatSize(artifact.size_bytes)} written to ${file}`,
    ]);
  }
  if (out.json) return out.printJson(answer);
  if (text === null && out.terminal) {
    throw fault('bad_usage', `${id} is ${artifact.mime_type}, which is not printable text`, {
      hint: `Write it to a file: agentctl artifact get ${id} --output FILE`,
    });
  }
  // A pipe or file gets the exact bytes; a terminal gets no control characters.
  if (text === null) writeOut(Buffer.from(base64 ?? '', 'base64'));
  else out.write(out.terminal ? `${replaceControls(text)}\n` : text);
}

function writeContent(file: string, content: string | Buffer): void {
  try {
    writeFileSync(file, content);
  } catch (cause) {
    const code = (cause as NodeJS.ErrnoException).code ?? 'error';
    throw fault('bad_usage', `${file} cannot be written (${code})`, {
      hint: 'Name a file that you may write.',
      cause,
    });
  }
}
