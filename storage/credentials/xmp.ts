/**
 * XMP packets with the IPTC properties that mark generated media. Adobe's XMP specification, part 1
 * (packets) and part 3 (places in files); IPTC Photo Metadata Standard 2025.1 (properties).
 */

/** Content of a mark. The prompt is not part of it, because a file is passed on to others. */
export interface Mark {
  jobId: string;
  model: string | null;
  /** True if the output contains a picture or film of the caller. */
  hasCallerMedia: boolean;
  createdAt: Date;
}

const newsCodes = 'http://cv.iptc.org/newscodes/digitalsourcetype/';

/** Names and values of a mark, in the notation of XMP. */
export function listProperties(mark: Mark): [name: string, value: string][] {
  const type = mark.hasCallerMedia
    ? 'compositeWithTrainedAlgorithmicMedia'
    : 'trainedAlgorithmicMedia';
  return [
    ['Iptc4xmpExt:DigitalSourceType', newsCodes + type],
    ...(mark.model === null ? [] : [['Iptc4xmpExt:AISystemUsed', mark.model] as [string, string]]),
    ['dc:identifier', mark.jobId],
    ['xmp:CreateDate', mark.createdAt.toISOString()],
    ['xmp:CreatorTool', 'Studio Gateway'],
  ];
}

/** IPTC's terms for media that an algorithm made or changed. */
const generatedTerms =
  /digitalsourcetype\/(?:\w*algorithmicmedia|compositesynthetic|algorithmicallyenhanced)/i;

/**
 * Returns whether metadata marks a file as generated. An XMP packet that refers to a manifest
 * elsewhere (`dcterms:provenance`) belongs to a signed file.
 */
export function isMark(text: string): boolean {
  return generatedTerms.test(text) || /\bdcterms:provenance\b/.test(text);
}

/** Returns a packet with the mark. Other properties of an existing packet are kept. */
export function buildPacket(mark: Mark, existing: string | null): string {
  const properties = listProperties(mark);
  const attributes = properties.map(([name, value]) => `${name}="${escapeXml(value)}"`).join(' ');
  const description = `<rdf:Description rdf:about="" ${namespaces} ${attributes}/>`;
  const kept = existing && keepOtherProperties(existing, properties);
  if (kept) return kept.replace(/<\/rdf:RDF>(?![\s\S]*<\/rdf:RDF>)/, `${description}$&`);
  return `<?xpacket begin="\uFEFF" id="W5M0MpCehiHzreSzNTczkc9d"?><x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">${description}</rdf:RDF></x:xmpmeta><?xpacket end="w"?>`;
}

const namespaces = [
  'xmlns:Iptc4xmpExt="http://iptc.org/std/Iptc4xmpExt/2008-02-29/"',
  'xmlns:dc="http://purl.org/dc/elements/1.1/"',
  'xmlns:xmp="http://ns.adobe.com/xap/1.0/"',
].join(' ');

/**
 * Removes the properties of the mark from an existing packet, and its padding. Returns null if the
 * packet is not in the usual form; then it is replaced.
 */
function keepOtherProperties(packet: string, properties: [string, string][]): string | null {
  if (!packet.includes('xmlns:rdf=') || !packet.includes('</rdf:RDF>')) return null;
  return properties
    .reduce(
      (text, [name]) =>
        text
          .replaceAll(new RegExp(`\\s${name}\\s*=\\s*("[^"]*"|'[^']*')`, 'g'), '')
          .replaceAll(new RegExp(`<${name}(?:\\s[^>]*)?(?:/>|>[^]*?</${name}>)`, 'g'), ''),
      packet,
    )
    .replace(/\s+(<\?xpacket end)/, '$1');
}

const escapeXml = (text: string): string =>
  text.replaceAll(/[<>&"]/g, (character) => `&#${character.charCodeAt(0)};`);
