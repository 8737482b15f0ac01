// Memos: a stored resource whose rules are written in JavaScript.
//
// The host keeps the objects; `admit` says which may be written, and completes them. Functions and records are those of
// wit/v0.1/plugin.wit, world `stored`, in camel case.

const GROUP = 'javascript.plugins.example.com';

const SCHEMA = {
  type: 'object',
  description: 'A memo, counted in JavaScript.',
  required: ['spec'],
  properties: {
    spec: {
      type: 'object',
      required: ['message'],
      properties: {
        message: { type: 'string', description: 'At least one word.', maxLength: 4096 },
        level: { type: 'string', description: 'Left out, it is info.', enum: ['info', 'warning'] },
      },
    },
    status: {
      type: 'object',
      properties: { words: { type: 'integer', description: 'Words of the message.' } },
    },
  },
};

const column = (name, type, description, jsonPath) => ({ name, type, format: '', description, jsonPath, priority: 0 });

export const setup = {
  configure(settings) {
    if (!['', 'null', '{}'].includes(settings)) {
      throw 'settings: there are none';
    }
  },

  describe() {
    const memos = {
      group: GROUP,
      version: 'v1',
      kind: 'Memo',
      plural: 'memos',
      shortNames: [],
      categories: [],
      namespaced: true,
      schema: JSON.stringify(SCHEMA),
      columns: [
        column('Level', 'string', 'How urgent it is.', '.spec.level'),
        column('Words', 'integer', 'Words of the message.', '.status.words'),
      ],
      selectableFields: ['.spec.level'],
      subresources: [{ tag: 'status' }],
      shape: { tag: 'stored' },
      options: [],
    };
    return { resources: [memos], sources: [] };
  },
};

export const admission = {
  admit(resource, review) {
    if (review.object === undefined || review.operation === 'delete' || review.subresource !== undefined) {
      return { warnings: [] };
    }
    const memo = JSON.parse(new TextDecoder().decode(review.object));
    const words = memo.spec.message.split(/\s+/).filter(Boolean);
    if (words.length === 0) {
      throw refusal(review.key.name);
    }
    memo.spec.level ??= 'info';
    memo.status = { words: words.length };
    return { object: new TextEncoder().encode(JSON.stringify(memo)), warnings: [] };
  },
};

function refusal(name) {
  const detail = 'Required value: a memo in JavaScript has at least one word';
  return {
    reason: 'Invalid',
    message: `Memo.${GROUP} "${name}" is invalid: spec.message: ${detail}`,
    causes: [{ reason: 'FieldValueRequired', message: detail, field: 'spec.message' }],
  };
}
