// Pictures and files in clients' requests: each dialect's form of them, to a neutral part and back.
import type { MediaPart } from './model-request.ts';
import { asObject, asText, type JsonObject } from './reading.ts';

const DATA_URL = /^data:([^;,]*);base64,(.*)$/s;

function makeMedia(
  kind: MediaPart['kind'],
  url: string | undefined,
  more: { name?: unknown; detail?: unknown } = {},
): MediaPart | undefined {
  if (url === undefined || !/^(https?|data):/.test(url)) return undefined;
  const name = asText(more.name);
  const detail = asText(more.detail);
  return {
    type: 'media',
    kind,
    url,
    ...(name === undefined ? {} : { name }),
    ...(detail === undefined ? {} : { detail }),
  };
}

/** Returns undefined for what is stored at the vendor, which no other provider can read. */
export function readChatMedia(part: JsonObject): MediaPart | undefined {
  if (part.type === 'image_url') {
    const image = asObject(part.image_url);
    return makeMedia('image', asText(image?.url), { detail: image?.detail });
  }
  const file = asObject(part.file);
  return makeMedia('file', asText(file?.file_data), { name: file?.filename });
}

export function writeChatMedia({ kind, url, name, detail }: MediaPart): JsonObject {
  if (kind === 'image')
    return { type: 'image_url', image_url: { url, ...(detail === undefined ? {} : { detail }) } };
  return { type: 'file', file: { filename: name ?? 'file', file_data: url } };
}

export function readResponsesMedia(part: JsonObject): MediaPart | undefined {
  return part.type === 'input_image'
    ? makeMedia('image', asText(part.image_url), part)
    : makeMedia('file', asText(part.file_data) ?? asText(part.file_url), { name: part.filename });
}

export function writeResponsesMedia({ kind, url, name, detail }: MediaPart): JsonObject {
  if (kind === 'image') return { type: 'input_image', image_url: url, detail: detail ?? 'auto' };
  const named = name === undefined ? {} : { filename: name };
  return url.startsWith('data:')
    ? { type: 'input_file', filename: name ?? 'file', file_data: url }
    : { type: 'input_file', ...named, file_url: url };
}

export function readAnthropicMedia(block: JsonObject): MediaPart | undefined {
  const source = asObject(block.source);
  const kind = block.type === 'image' ? 'image' : 'file';
  if (source?.type === 'url') return makeMedia(kind, asText(source.url), { name: block.title });
  if (source?.type !== 'base64') return undefined;
  const url = `data:${asText(source.media_type) ?? ''};base64,${asText(source.data) ?? ''}`;
  return makeMedia(kind, url, { name: block.title });
}

export function writeAnthropicMedia({ kind, url, name }: MediaPart): JsonObject {
  const data = DATA_URL.exec(url);
  const source =
    data === null ? { type: 'url', url } : { type: 'base64', media_type: data[1], data: data[2] };
  if (kind === 'image') return { type: 'image', source };
  return { type: 'document', source, ...(name === undefined ? {} : { title: name }) };
}
