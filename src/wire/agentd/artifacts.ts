// Artifacts: named records that point to content.
import * as z from 'zod';
import {
  ArtifactId,
  ContextId,
  Label,
  Principal,
  Sha256,
  TaskId,
  Timestamp,
} from '../primitives.ts';

export const ArtifactView = z.object({
  id: ArtifactId,
  ref: z.string(),
  name: z.string(),
  mime_type: z.string(),
  size_bytes: z.int(),
  object_hash: Sha256,
  created_by: Principal,
  task_id: TaskId.nullable(),
  context_id: ContextId.nullable(),
  labels: z.array(Label),
  created_at: Timestamp,
});
export type ArtifactView = z.infer<typeof ArtifactView>;

export const artifactSizeBytesMax = 8_000_000;
export const PutArtifact = z.strictObject({
  name: z.string().min(1).max(200),
  mime_type: z
    .string()
    .regex(/^[\w.+-]+\/[\w.+-]+(; ?[\w-]+=[\w.-]+)?$/, 'must look like text/plain')
    .max(100)
    .optional(),
  /** Exactly one of `text` and `base64` is given. */
  text: z.string().max(artifactSizeBytesMax).optional(),
  base64: z.base64().max(12_000_000).optional(),
});
export type PutArtifact = z.infer<typeof PutArtifact>;
export const ArtifactContent = z.object({
  artifact: ArtifactView,
  text: z.string().nullable(),
  base64: z.string().nullable(),
});
