//! `load::element`: which elements of HTML are not content.

use std::borrow::Cow;

/// Looks up an attribute of an element by its name.
pub(super) type ElementAttributes<'a, 'e> = &'a dyn Fn(&str) -> Option<Cow<'e, str>>;

/// Where markup is from, which decides what around the content is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MarkupOrigin {
    /// A part of a book: all of it is content, except what calls itself navigation.
    Book,
    /// A web page, which has menus, asides and footers.
    Page,
}

/// Whether an element is left out with everything in it.
pub(super) fn is_left_out(origin: MarkupOrigin, name: &str, attribute: ElementAttributes<'_, '_>) -> bool {
    is_in(&NEVER_CONTENT, name)
        || attribute("hidden").is_some()
        || attribute("style").is_some_and(|style| style.replace(' ', "").contains("display:none"))
        || name == "a" && has_class(attribute, |class| PERMALINKS.contains(&class))
        || attribute("role").is_some_and(|role| NAVIGATION.contains(&&*role))
        || origin == MarkupOrigin::Page && surrounds_content(name, attribute)
}

/// The language of a code block, where its class names one.
pub(super) fn language(attribute: ElementAttributes<'_, '_>) -> Option<String> {
    let classes = attribute("class")?;
    let found = classes.split_whitespace().find_map(|class| class.strip_prefix("language-"));
    found.map(str::to_owned)
}

/// Elements without content of the page: for the browser, media, forms, and notes on other text.
const NEVER_CONTENT: [&[&str]; 4] = [
    &["head", "script", "style", "noscript", "template"],
    &["svg", "iframe", "object", "embed", "canvas", "audio", "video", "map"],
    &["select", "datalist", "button", "input", "textarea"],
    &["rp", "annotation", "annotation-xml"],
];
/// Classes of the mark that documentation generators put behind each heading.
const PERMALINKS: [&str; 4] = ["headerlink", "anchorjs-link", "header-anchor", "permalink"];
/// Roles of elements that are not content, on web pages and in books.
const NAVIGATION: [&str; 4] = ["navigation", "banner", "contentinfo", "search"];
/// Classes of what documentation generators (DocBook, Sphinx, …) put around the content: menus, headers and footers.
/// The list was made with Debian's documentation and applies to all pages.
const SURROUNDING: [&[&str]; 2] = [
    &["navheader", "navfooter", "navbar", "sphinxsidebar", "sidebar", "breadcrumb", "breadcrumbs"],
    &["skip-link", "cookie-banner", "site-header", "site-footer"],
];

/// What web pages put around their content, by element, role and class.
fn surrounds_content(name: &str, attribute: ElementAttributes<'_, '_>) -> bool {
    matches!(name, "nav" | "footer" | "aside")
        || attribute("role").is_some_and(|role| role == "complementary")
        || has_class(attribute, |class| is_in(&SURROUNDING, class))
}

fn is_in(groups: &[&[&str]], name: &str) -> bool {
    groups.iter().any(|group| group.contains(&name))
}

fn has_class(attribute: ElementAttributes<'_, '_>, is_one: impl Fn(&str) -> bool) -> bool {
    attribute("class").is_some_and(|classes| classes.split_whitespace().any(is_one))
}
