// artifact.put, get, list and share: agentd holds the records and the bytes. Reading is by pages,
// so that one artifact never fills a context.
import * as z from 'zod';
import { PutArtifact } from '../../../wire/agentd.ts';
import { ArtifactId } from '../../../wire/primitives.ts';
import { type AgentdClient, forRun, peerOptions, type Tool, tool } from './tool.ts';

const PAGE_CHARS = 60_000;

export const ArtifactRef = z
  .string()
  .max(100)
  .transform((ref) => ref.replace(/^artifact:\/\//, ''))
  .pipe(ArtifactId)
  .describe('artifact_… or artifact://artifact_…');

const Put = PutArtifact.refine(
  (body) => (body.text === undefined) !== (body.base64 === undefined),
  {
    message: 'give exactly one of text and base64',
  },
);

export function artifactTools(agentd: AgentdClient): Tool[] {
  const put = tool({
    name: 'artifact.put',
    description:
      'Store a named document or file that outlives your context: a report, a diff, data. Give ' +
      'exactly one of text and base64, at most 3 MB in one call. Others get it by the reference ' +
      'in the result.',
    risk: 'low',
    reversibility: 'reversible',
    idempotent: true,
    level: 'L0',
    input: Put,
    output: z.object({
      artifact: z.string(),
      id: ArtifactId,
      name: z.string(),
      size_bytes: z.int(),
      sha256: z.string(),
    }),
    async perform(input, context) {
      const body = { ...forRun(context), artifact: input };
      const { artifact } = await agentd.toolPutArtifact({ body }, peerOptions);
      const { ref, id, name, size_bytes, object_hash } = artifact;
      return { result: { artifact: ref, id, name, size_bytes, sha256: object_hash } };
    },
  });

  const get = tool({
    name: 'artifact.get',
    description:
      'Read an artifact by its id or artifact:// reference. Long text comes in pages: when the ' +
      'result has next_offset, call again with that offset.',
    risk: 'low',
    reversibility: 'read-only',
    idempotent: true,
    level: 'L0',
    input: z.strictObject({
      id: ArtifactRef,
      offset: z.int().nonnegative().default(0).describe('the character to start at'),
    }),
    output: z.object({
      id: ArtifactId,
      name: z.string(),
      mime_type: z.string(),
      size_bytes: z.int(),
      labels: z.array(z.string()),
      text: z.string().optional(),
      base64: z.string().optional(),
      next_offset: z.int().optional(),
    }),
    async perform({ id, offset }, context) {
      const body = { ...forRun(context), id };
      const { artifact, text, base64 } = await agentd.toolGetArtifact({ body }, peerOptions);
      const { name, mime_type, size_bytes, labels } = artifact;
      const whole = text ?? base64 ?? '';
      const end = endOfPage(whole, offset);
      return {
        result: {
          id,
          name,
          mime_type,
          size_bytes,
          labels,
          [text === null ? 'base64' : 'text']: whole.slice(offset, end),
          ...(end < whole.length ? { next_offset: end } : {}),
        },
      };
    },
  });

  const list = tool({
    name: 'artifact.list',
    description:
      'List the artifacts that colleagues have shared with the team, newest first. Those that hold ' +
      'text from outside have no name here; artifact.get reads any of them.',
    risk: 'low',
    reversibility: 'read-only',
    idempotent: true,
    level: 'L0',
    input: z.strictObject({}),
    output: z.object({
      artifacts: z.array(
        z.object({
          id: ArtifactId,
          name: z.string().nullable(),
          by: z.string(),
          labels: z.array(z.string()),
          size_bytes: z.int(),
          created_at: z.string(),
        }),
      ),
    }),
    async perform(_input, context) {
      const { artifacts } = await agentd.toolListShared({ body: forRun(context) }, peerOptions);
      return { result: { artifacts } };
    },
  });

  const share = tool({
    name: 'artifact.share',
    description:
      'Share an artifact that you have stored with the whole team: colleagues in other threads find ' +
      'it with artifact.list. Its labels go with it.',
    risk: 'medium',
    reversibility: 'irreversible',
    idempotent: true,
    level: 'L0',
    input: z.strictObject({ id: ArtifactRef }),
    output: z.object({ shared: z.boolean() }),
    async perform({ id }, context) {
      const body = { ...forRun(context), id };
      return { result: await agentd.toolShareArtifact({ body }, peerOptions) };
    },
  });

  return [put, get, list, share];
}

/**
 * PAGE_CHARS is a multiple of four, so pages of base64 decode alone; text is not cut inside a pair.
 */
export function endOfPage(text: string, offset: number): number {
  const end = Math.min(offset + PAGE_CHARS, text.length);
  return /[\ud800-\udbff]/.test(text.charAt(end - 1)) && end < text.length ? end - 1 : end;
}
